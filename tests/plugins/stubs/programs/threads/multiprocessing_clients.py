"""A pool of processes, each with a channel of its own, and a server of several processes at one port."""

import multiprocessing
import signal
import sys
from concurrent import futures

import grpc
from chat import ChatStub, add_chat_servicer, main, say

stub = None


class Primes:
    def Say(self, request, context):
        number = int(request)
        return str(number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1)))


def work(address, ready):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4), options=(("grpc.so_reuseport", 1),))
    add_chat_servicer(Primes(), server)
    server.add_insecure_port(address)
    server.start()
    ready.release()
    server.wait_for_termination()


def serve(address):
    ready = multiprocessing.Semaphore(0)
    workers = [multiprocessing.Process(target=work, args=(address, ready), daemon=True) for _ in range(2)]
    for worker in workers:
        worker.start()
        ready.acquire()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # which ends the workers
    say("ready")
    for worker in workers:
        worker.join()


def connect(address):
    global stub
    stub = ChatStub(grpc.insecure_channel(address))


def is_prime(number):
    return stub.Say(str(number), timeout=30)


def call(address):
    with multiprocessing.Pool(3, connect, (address,)) as pool:
        answers = pool.map(is_prime, range(200))
    say([number for number, answer in enumerate(answers) if answer == "True"])


if __name__ == "__main__":
    main(serve, call)
