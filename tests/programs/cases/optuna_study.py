"""Optuna's gRPC storage proxy: a study whose trials are kept by a server, as workers of one study share it."""

import threading
from contextlib import contextmanager

import optuna
from optuna.storages import GrpcStorageProxy, InMemoryStorage, run_grpc_proxy_server


@contextmanager
def server(port):
    """Serve a storage in memory, as its function for users does: it blocks until the process ends."""
    threading.Thread(
        target=run_grpc_proxy_server, args=(InMemoryStorage(),), kwargs={"host": "127.0.0.1", "port": port}, daemon=True
    ).start()
    GrpcStorageProxy(host="127.0.0.1", port=port).wait_server_ready(timeout=60)
    yield


@contextmanager
def client(port):
    """Optimize a function of two parameters."""
    storage = GrpcStorageProxy(host="127.0.0.1", port=port)
    study = optuna.create_study(storage=storage, study_name="reach", sampler=optuna.samplers.TPESampler(seed=7))

    def reach(trial):
        x, joint = trial.suggest_float("x", -2, 2), trial.suggest_categorical("joint", ["hip", "knee"])
        for step in range(3):
            trial.report(x**2 + step, step)
        trial.set_user_attr("joint", joint)
        return x**2 + (joint == "hip")

    def one_trial():
        study.optimize(reach, n_trials=1)

    def missing():
        try:
            optuna.load_study(study_name="none", storage=storage)
        except KeyError as error:
            return str(error)

    def number_of_trials():
        return storage.get_n_trials(study._study_id)

    def equal():
        study.optimize(reach, n_trials=15)
        kept = [[one.number, one.values, one.params, one.intermediate_values, one.user_attrs] for one in study.trials]
        names = [one.study_name for one in optuna.get_all_study_summaries(storage)]
        return {"trials": kept, "best": study.best_params, "studies": names, "missing": missing()}

    yield equal, number_of_trials, one_trial
    storage.close()
