"""Wrong answers to the exercises of "Streams", with what the check must say of each."""

from __future__ import annotations

import numpy as np

from wrong_answers import collection, swap

WRONG, wrong = collection("20_streams")

# --- wait ---------------------------------------------------------------------------------------

wrong("wait", "nothing waits for that copy", "no wait at all")(swap("\n    stream.synchronize()", ""))
wrong("wait", "waits for the work of another stream", "waits for all streams")(
    swap("stream.synchronize()", "cuda.synchronize()")
)
wrong("wait", "nothing waits for that copy", "an event that nobody waits for")(
    swap("stream.synchronize()", "cuda.event().record(stream)")
)
wrong("wait", "computed on the host", "squares on the host")(
    swap("d_values.copy_to_host(result, stream=stream)", "result[:] = values**2")
)
wrong("wait", "nothing waits for that copy", "waits before the last copy")(
    swap("d_values.copy_to_host(result, stream=stream)\n    stream.synchronize()",
         "stream.synchronize()\n    d_values.copy_to_host(result, stream=stream)")
)

# --- both-waits ---------------------------------------------------------------------------------


def waits(copied=True, free=True, buffers=1, streams=2, done_after="out", host=False):
    """A pipeline of two streams with some of its waits."""

    def pipeline(gpu, chunks, results):
        queues = [gpu.stream() for _ in range(streams)]
        copying, working = queues[0], queues[-1]
        arrived, done = gpu.event(), gpu.event()
        places = [gpu.buffer(chunks[0].size) for _ in range(buffers or len(chunks))]
        for k, (chunk, result) in enumerate(zip(chunks, results, strict=True)):
            place = places[k % len(places)]
            if free:
                done.wait(copying)
            copying.copy_in(chunk**2 if host else chunk, place, label=f"in {k}")
            arrived.record(copying)
            if copied:
                arrived.wait(working)
            if not host:
                working.launch(square, place, label=f"square {k}")
            if done_after == "launch":
                done.record(working)
            working.copy_out(place, result, label=f"out {k}")
            if done_after == "out":
                done.record(working)

    return pipeline


wrong("both-waits", "result .* is .*filled again before", "the copy alone is waited for")(waits(free=False))
wrong("both-waits", "read before it is filled", "the buffer alone is waited for")(waits(copied=False))
wrong("both-waits", "filled again before", "the event of the launch")(waits(done_after="launch"))
wrong("both-waits", "room for 4 chunks", "a buffer for each")(waits(free=False, buffers=0))
wrong("both-waits", "with 1 stream", "one stream")(waits(streams=1))
wrong("both-waits", "in an order that is allowed, result", "squares on the host, for show")(waits(host=True))


@wrong("both-waits", "0 are copied in")
def by_numpy(gpu, chunks, results):
    np.square(chunks, out=results)


# --- pipeline -----------------------------------------------------------------------------------


def square(values):
    values *= values


def lanes(streams=3, buffers=3, launch=True, wait=False, host_waits=False):
    """A pipeline with so many streams and buffers that take turns."""

    def pipeline(gpu, chunks, results):
        queues = [gpu.stream() for _ in range(streams)]
        places = [gpu.buffer(chunks[0].size) for _ in range(buffers or len(chunks))]
        for k, (chunk, result) in enumerate(zip(chunks, results, strict=True)):
            stream, place = queues[k % streams], places[k % len(places)]
            stream.copy_in(chunk, place, label=f"in {k}")
            if launch:
                stream.launch(square, place, label=f"square {k}")
            stream.copy_out(place, result, label=f"out {k}")
            if host_waits:
                gpu.synchronize()

    return pipeline


wrong("pipeline", "6 chunks are done after 18 units; 8 are enough", "one stream")(lanes(1, 1))
wrong("pipeline", "chunks are done after .* are enough", "two streams")(lanes(2, 2))
wrong("pipeline", "filled again before it has been", "three streams, one buffer")(lanes(3, 1))
wrong("pipeline", "memory for three", "a buffer for each chunk")(lanes(3, 0))
wrong("pipeline", "result 0 is .*, not", "no launch")(lanes(launch=False))
wrong("pipeline", "chunks are done after", "the host waits each time")(lanes(host_waits=True))


@wrong("pipeline", "read before it is filled")
def a_stream_for_each_engine(gpu, chunks, results):
    arriving, working, leaving = (gpu.stream() for _ in range(3))
    buffers = [gpu.buffer(chunks[0].size) for _ in range(3)]
    for k, (chunk, result) in enumerate(zip(chunks, results, strict=True)):
        arriving.copy_in(chunk, buffers[k % 3], label=f"in {k}")
        working.launch(square, buffers[k % 3], label=f"square {k}")
        leaving.copy_out(buffers[k % 3], result, label=f"out {k}")


@wrong("pipeline", "filled again before it has been")
def forgets_that_buffers_are_used_again(gpu, chunks, results):
    arriving, working, leaving = (gpu.stream() for _ in range(3))
    arrived, done = gpu.event(), gpu.event()
    buffers = [gpu.buffer(chunks[0].size) for _ in range(3)]
    for k, (chunk, result) in enumerate(zip(chunks, results, strict=True)):
        arriving.copy_in(chunk, buffers[k % 3], label=f"in {k}")
        arrived.record(arriving)
        arrived.wait(working)
        working.launch(square, buffers[k % 3], label=f"square {k}")
        done.record(working)
        done.wait(leaving)
        leaving.copy_out(buffers[k % 3], result, label=f"out {k}")


@wrong("pipeline", "0 are copied in")
def computes_on_the_host(gpu, chunks, results):
    np.square(chunks, out=results)


def squares_on_the_host(gpu, chunks, results):
    streams = [gpu.stream() for _ in range(3)]
    buffers = [gpu.buffer(chunks[0].size) for _ in range(3)]
    for k, (chunk, result) in enumerate(zip(chunks, results, strict=True)):
        streams[k % 3].copy_in(chunk**2, buffers[k % 3], label=f"in {k}")
        streams[k % 3].launch(unchanged, buffers[k % 3], label=f"nothing {k}")
        streams[k % 3].copy_out(buffers[k % 3], result, label=f"out {k}")


def unchanged(buffer):
    pass


wrong("pipeline", "in an order that is allowed, result", "squares on the host")(squares_on_the_host)


@wrong("pipeline", "with room for 6; there is memory for three")
def in_one_buffer_for_all(gpu, chunks, results):
    streams, places = [gpu.stream() for _ in range(3)], gpu.buffer(chunks.size).reshape(chunks.shape)
    for k, (chunk, place, result) in enumerate(zip(chunks, places, results, strict=True)):
        streams[k % 3].copy_in(chunk, place)
        streams[k % 3].launch(square, place)
        streams[k % 3].copy_out(place, result)


@wrong("pipeline", r"copy_in needs device memory there: gpu.buffer")
def in_memory_of_the_host(gpu, chunks, results):
    streams = [gpu.stream() for _ in range(3)]
    for k, (chunk, result) in enumerate(zip(chunks, results, strict=True)):
        place = np.empty_like(chunk)
        streams[k % 3].copy_in(chunk, place)
        streams[k % 3].launch(square, place)
        streams[k % 3].copy_out(place, result)


def by_launches(kernel):
    """A pipeline whose launches are handed a buffer, the host's chunk and the host's result."""

    def pipeline(gpu, chunks, results):
        streams = [gpu.stream() for _ in range(3)]
        places = [gpu.buffer(chunks[0].size) for _ in range(3)]
        gone = np.empty_like(chunks[0])
        for k, (chunk, result) in enumerate(zip(chunks, results, strict=True)):
            streams[k % 3].copy_in(chunk, places[k % 3])
            streams[k % 3].launch(kernel, places[k % 3], chunk, result)
            streams[k % 3].copy_out(places[k % 3], result if kernel is reads_the_host_s else gone)

    return pipeline


def reads_the_host_s(place, chunk, result):
    place[:] = chunk**2


def writes_the_host_s(place, chunk, result):
    result[:] = place**2
    place[:] = 0


wrong("pipeline", "result 0 is garbage.*are on the host", "a kernel reads the host's chunk")(
    by_launches(reads_the_host_s))
wrong("pipeline", "result 0 is .*are on the host", "a kernel writes the host's results")(
    by_launches(writes_the_host_s))


@wrong("pipeline", "broadcast|shape")
def buffers_of_three(gpu, chunks, results):
    streams, places = [gpu.stream() for _ in range(3)], [gpu.buffer(3) for _ in range(3)]
    for k, (chunk, result) in enumerate(zip(chunks, results, strict=True)):
        streams[k % 3].copy_in(chunk, places[k % 3])
        streams[k % 3].launch(square, places[k % 3])
        streams[k % 3].copy_out(places[k % 3], result)
