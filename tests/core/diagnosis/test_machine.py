"""Checks of the system, each against a system that was made to look so."""

from __future__ import annotations

import errno
import os
import platform
import pwd
import resource
import sys
from pathlib import Path

import pytest

from lucky_transport.diagnosis import machine
from lucky_transport.diagnosis.check import CheckStatus, Roots
from tests.support.resources import descriptors_of

HERE = Roots()


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    """An empty system."""
    names = ("shm", "etc", "run", "var", "proc", "cgroup")
    for name in names:
        (tmp_path / name).mkdir()
    return Roots(**{name: tmp_path / name for name in names})


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody's configuration."""
    monkeypatch.chdir(tmp_path)
    for key in list(os.environ):
        if key.startswith("LUCKY_"):
            monkeypatch.delenv(key)


def test_this_interpreter_is_one_that_segments_fit() -> None:
    row = machine.interpreter(HERE)
    assert row.verdict is CheckStatus.OK
    assert platform.python_version() in row.seen


def test_a_big_endian_interpreter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "byteorder", "big")
    row = machine.interpreter(HERE)
    assert row.verdict is CheckStatus.FAIL
    assert "big-endian" in row.seen


@pytest.mark.parametrize(("system", "verdict"), [("Linux", CheckStatus.OK), ("Darwin", CheckStatus.WARN)])
def test_shared_memory_needs_linux(monkeypatch: pytest.MonkeyPatch, system: str, verdict: CheckStatus) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    assert machine.kernel(HERE).verdict is verdict


def test_pidfd_works_here_and_leaves_no_descriptor_open() -> None:
    before = descriptors_of("[pidfd]")
    assert machine.pidfd(HERE).verdict is CheckStatus.OK
    assert not descriptors_of("[pidfd]") - before


def test_a_sandbox_that_forbids_pidfd_is_a_failure_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(pid: int, flags: int = 0) -> int:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "pidfd_open", forbid)
    row = machine.pidfd(HERE)
    assert row.verdict is CheckStatus.FAIL
    assert "Operation not permitted" in row.seen
    assert "Linux 5.3" in row.remedy


# --- CPUs ---


def usable_cpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(count)))


@pytest.mark.parametrize(("count", "says"), [(1, "burn the very time"), (2, "two spinning sides"), (3, ""), (64, "")])
def test_with_two_cpus_or_fewer_spinning_is_advised_against(
    monkeypatch: pytest.MonkeyPatch, roots: Roots, count: int, says: str
) -> None:
    usable_cpus(monkeypatch, count)
    row = machine.cpus(roots)
    assert row.verdict is CheckStatus.OK
    assert row.seen.startswith(f"{count} usable")
    assert ("spin" in row.seen) == bool(says)
    assert says in row.seen


@pytest.mark.parametrize(("count", "verdict"), [(2, CheckStatus.WARN), (3, CheckStatus.OK)])
def test_spinning_that_is_configured_on_two_cpus_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, roots: Roots, count: int, verdict: CheckStatus
) -> None:
    usable_cpus(monkeypatch, count)
    monkeypatch.setenv("LUCKY_WAIT", "spin")
    assert machine.cpus(roots).verdict is verdict


def test_the_tightest_quota_of_the_control_groups_counts(monkeypatch: pytest.MonkeyPatch, roots: Roots) -> None:
    usable_cpus(monkeypatch, 16)
    (roots.proc / "self").mkdir()
    (roots.proc / "self" / "cgroup").write_text("0::/outer/inner\n")
    inner = roots.cgroup / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "cpu.max").write_text("max 100000\n")
    (roots.cgroup / "outer" / "cpu.max").write_text("150000 100000\n")
    assert "limited to 1.5 by the container's quota" in machine.cpus(roots).seen


@pytest.mark.parametrize(("quota", "limited"), [("200000", True), ("-1", False)])
def test_a_quota_of_the_older_control_groups_counts_too(
    monkeypatch: pytest.MonkeyPatch, roots: Roots, quota: str, limited: bool
) -> None:
    usable_cpus(monkeypatch, 16)
    (roots.cgroup / "cpu").mkdir()
    (roots.cgroup / "cpu" / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (roots.cgroup / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert ("limited to 2 by" in machine.cpus(roots).seen) == limited


def test_the_gil_row_tells_the_interval_in_force() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0025)
    try:
        assert "2.5 ms" in machine.gil(HERE).seen
    finally:
        sys.setswitchinterval(before)


def test_without_a_gil_there_is_no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert "free-threaded" in machine.gil(HERE).seen


# --- limits and sessions ---


@pytest.mark.parametrize(
    ("limits", "verdict", "seen"),
    [
        ((64, 4096), CheckStatus.WARN, "soft limit 64, hard limit 4096"),
        ((1024, resource.RLIM_INFINITY), CheckStatus.OK, "soft limit 1024, hard limit unlimited"),
        (
            (resource.RLIM_INFINITY, resource.RLIM_INFINITY),
            CheckStatus.OK,
            "soft limit unlimited, hard limit unlimited",
        ),
    ],
)
def test_too_few_descriptors_are_warned_of(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], verdict: CheckStatus, seen: str
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits)
    row = machine.open_files(HERE)
    assert (row.verdict, row.seen) == (verdict, seen)


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch, roots: Roots) -> str:
    """An ordinary user on a machine with systemd."""
    (roots.run / "systemd" / "system").mkdir(parents=True)
    (roots.etc / "systemd").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    entry = pwd.struct_passwd(("robot", "x", 1000, 1000, "", "/home/robot", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: entry)
    return "robot"


def test_without_systemd_nobody_removes_segments(roots: Roots) -> None:
    assert machine.login_sessions(roots).verdict is CheckStatus.OK


def test_a_system_user_keeps_his_segments(user: str, roots: Roots, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert machine.login_sessions(roots).verdict is CheckStatus.OK


def test_systemds_default_removes_segments_at_logout(user: str, roots: Roots) -> None:
    row = machine.login_sessions(roots)
    assert row.verdict is CheckStatus.WARN
    assert "RemoveIPC=yes (default)" in row.seen
    assert "loginctl enable-linger" in row.remedy


@pytest.mark.parametrize(("line", "verdict"), [("RemoveIPC=no", CheckStatus.OK), ("#RemoveIPC=no", CheckStatus.WARN)])
def test_logind_conf_decides(user: str, roots: Roots, line: str, verdict: CheckStatus) -> None:
    (roots.etc / "systemd" / "logind.conf").write_text(f"[Login]\n{line}\n")
    assert machine.login_sessions(roots).verdict is verdict


def test_a_drop_in_wins_over_logind_conf(user: str, roots: Roots) -> None:
    (roots.etc / "systemd" / "logind.conf").write_text("[Login]\nRemoveIPC=no\n")
    drop_in = roots.etc / "systemd" / "logind.conf.d" / "10-ipc.conf"
    drop_in.parent.mkdir()
    drop_in.write_text("[Login]\nRemoveIPC = yes\n")
    row = machine.login_sessions(roots)
    assert row.verdict is CheckStatus.WARN
    assert str(drop_in) in row.seen


def test_a_user_who_lingers_is_never_logged_out(user: str, roots: Roots) -> None:
    linger = roots.var / "lib" / "systemd" / "linger"
    linger.mkdir(parents=True)
    (linger / user).touch()
    assert machine.login_sessions(roots).verdict is CheckStatus.OK


# --- settings ---


def test_the_settings_in_force_are_shown_with_their_source(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.settings(HERE).seen == "all at their defaults"
    monkeypatch.setenv("LUCKY_TRANSPORT", "shm")
    assert machine.settings(HERE).seen == "transport = 'shm' (environment variable LUCKY_TRANSPORT)"


def test_a_wrong_setting_is_a_failure_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUCKY_WAIT", "patiently")
    row = machine.settings(HERE)
    assert row.verdict is CheckStatus.FAIL
    assert "LUCKY_WAIT" in row.seen
    assert "'adaptive'" in row.remedy
