"""What is generated from the `.proto` files is committed, and what cannot be generated is refused."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed: pip install 'lucky-transport[dev]'")

import generate
from generators.classes import ProtoError, render, render_world
from tests.support.command import python

GENERATOR = Path(generate.__file__)
HEAD = 'syntax = "proto3";\npackage p;\n'
SERVICE = """
// Methods.
service EchoService {
  // lucky: id=7 effect=read runs=inline
  rpc Echo(Word) returns (Word);
}
"""


def test_the_committed_files_are_those_that_the_generator_writes() -> None:
    done = python(GENERATOR, "--check", timeout=100)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def compiled(folder: Path, text: str) -> dict[str, str]:
    (folder / "words.proto").write_text(HEAD + SERVICE + text)
    return render(generate.compile_protos(folder, comments=True))


def test_a_message_becomes_a_class_with_comments_marks_and_defaults(tmp_path: Path) -> None:
    text = """
// How loud.
enum Volume {
  VOLUME_LOW = 0;  // hardly heard
  VOLUME_HIGH = 5;
}

// One word.
//
// ParsedLine by somebody.
message Word {
  string text = 1;
  repeated float pitches = 2;  // hertz
  map<string, Word> by_name = 3;
  oneof speaker {
    uint64 id = 4;
    string name = 5;
  }
  // lucky: buffer
  bytes sound = 6;
  Volume volume = 7;
  optional double end = 8;
}

// Never said.
message Unused {}
"""
    module = compiled(tmp_path, text)["words.py"]
    assert module.partition("class Volume(IntEnum):\n")[2] == (
        '''    """How loud."""

    LOW = 0  # hardly heard
    HIGH = 5


@one_of("id", "name")
@dataclass(slots=True)
class Word:
    """One word.

    ParsedLine by somebody.
    """

    text: str = ""
    pitches: list[F32] = field(default_factory=no_items)  # hertz
    by_name: dict[str, Word] = field(default_factory=no_entries)
    id: U64 | None = None
    name: str = ""
    sound: Buffer = b""
    volume: Annotated[Volume, "i32"] = Volume.LOW
    end: F64 | None = None
'''
    )


_WORD = "// A word.\nmessage Word {}\n"
_OTHER = SERVICE.replace("Echo", "Other")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("// A word.\nmessage Word { string text = 2; }\n", "Word: fields must be in the order of their numbers"),
        ("// A word.\nmessage Word { sint32 text = 1; }\n", r"Word\.text: no codec knows its type"),
        ("message Word {}\n", "Word: a comment must say what the message is"),
        ("// A word.\nmessage Word {\n  // lucky: buffer\n  string text = 1;\n}\n", r"Word\.text: only bytes can be"),
        (_WORD + _OTHER, "the method id 7 is used twice"),
        (_WORD + _OTHER.replace("id=7", "id=8 colour=red"), "unknown marks colour"),
        (_WORD + _OTHER.replace("id=7", ""), "/p.OtherService/Other: marks must be effect, id"),
        (_WORD + _OTHER.replace("id=7 effect=read", "id=8 effect=none"), "effect=none is none of"),
    ],
)
def test_what_cannot_be_generated_is_refused_with_its_place(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ProtoError, match=complaint):
        compiled(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [('syntax = "proto3";\nmessage Broken { int33 x = 1; }\n', r"broken\.proto:2"), ("", "no .proto")],
)
def test_protos_that_do_not_compile_or_are_not_there_are_reported(tmp_path: Path, text: str, complaint: str) -> None:
    if text:
        (tmp_path / "broken.proto").write_text(text)
    with pytest.raises(generate.GenerateError, match=complaint):
        generate.compile_protos(tmp_path)


def test_a_missing_compiler_is_reported_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "grpc_tools", None)
    assert generate.main(["--check"]) == 1
    assert "pip install 'lucky-transport[dev]'" in capsys.readouterr().err


def test_a_world_has_the_marked_messages_under_their_names_without_what_is_the_sessions(tmp_path: Path) -> None:
    text = """
// A look.
// lucky: class=Observation
message GameObservation {
  int32 tick = 1;
  // lucky: session
  bool done = 2;
  repeated RlUnit units = 3;
}

// One unit.
// lucky: class=Unit
message RlUnit {
  string type = 1;
}

message OfTheCallAlone {}
"""
    (tmp_path / "bridge.proto").write_text(HEAD + text)
    module = render_world(generate.compile_protos(tmp_path, comments=True), "bridge.proto")
    assert module.partition("@dataclass")[2] == (
        '''(slots=True)
class Observation:
    """A look."""

    tick: I32 = 0
    units: list[Unit] = field(default_factory=no_items)


@dataclass(slots=True)
class Unit:
    """One unit."""

    type: str = ""
'''
    )
