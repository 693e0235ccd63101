"""Right answers to the exercises of "Streams" in other styles than the lecture's."""

from __future__ import annotations

import numpy as np
from numba import cuda

from wrong_answers import other_styles

RIGHT, right = other_styles("20_streams")


@right("wait")
def a_with_that_waits_at_its_end(stream, values, result):
    with stream.auto_synchronize():
        d_values = cuda.to_device(values, stream=stream)
        squared_all[2, 1024, stream](d_values)
        d_values.copy_to_host(result, stream=stream)


@right("wait")
def an_event_at_the_end(stream, values, result):
    d_values, end = cuda.to_device(values, stream=stream), cuda.event()
    squared_all[2, 1024, stream](d_values)
    d_values.copy_to_host(result, stream=stream)
    end.record(stream)
    end.synchronize()


@cuda.jit
def squared_all(values):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        values[i] *= values[i]


@right("both-waits")
def an_event_for_each_chunk(gpu, chunks, results):
    arriving, working, buffer = gpu.stream(), gpu.stream(), gpu.buffer(chunks.shape[1])
    free = None
    for chunk, result in zip(chunks, results, strict=True):
        arrived, left = gpu.event(), gpu.event()
        if free is not None:
            free.wait(arriving)
        arriving.copy_in(chunk, buffer)
        arrived.record(arriving)
        arrived.wait(working)
        working.launch(lambda values: np.square(values, out=values), buffer)
        working.copy_out(buffer, result)
        left.record(working)
        free = left


@right("both-waits")
def the_host_waits_for_the_buffer(gpu, chunks, results):
    arriving, working, buffer = gpu.stream(), gpu.stream(), gpu.buffer(chunks[0].size)
    for k in range(len(chunks)):
        arriving.copy_in(chunks[k], buffer)
        gpu.synchronize()
        working.launch(squared, buffer, buffer)
        working.copy_out(buffer, results[k])
        gpu.synchronize()


# --- pipeline -----------------------------------------------------------------------------------


@right("pipeline")
def deals_the_chunks_out(gpu, chunks, results):
    lanes = [(gpu.stream(), gpu.buffer(chunks.shape[1])) for _ in range(min(3, len(chunks)))]
    for k in range(len(chunks)):
        stream, buffer = lanes[k % len(lanes)]
        stream.copy_in(chunks[k], buffer)
        stream.launch(lambda values: np.square(values, out=values), buffer)
        stream.copy_out(buffer, results[k])


@right("pipeline")
def a_stream_for_each_engine_and_events(gpu, chunks, results):
    arriving, working, leaving = gpu.stream(), gpu.stream(), gpu.stream()
    buffers = [gpu.buffer(chunks[0].size) for _ in range(3)]
    empty = [gpu.event() for _ in buffers]
    for k, chunk in enumerate(chunks):
        buffer, arrived, done = buffers[k % 3], gpu.event(), gpu.event()
        empty[k % 3].wait(arriving)
        arriving.copy_in(chunk, buffer)
        arrived.record(arriving)
        arrived.wait(working)
        working.launch(squared, buffer, buffer)
        done.record(working)
        done.wait(leaving)
        leaving.copy_out(buffer, results[k])
        empty[k % 3].record(leaving)


def squared(values, into):
    into[:] = values**2


@right("pipeline")
def a_stream_for_each_chunk(gpu, chunks, results):
    buffers = [gpu.buffer(len(chunks[0])) for _ in chunks[:3]]
    free = [None] * 3
    for k, (chunk, result) in enumerate(zip(chunks, results, strict=True)):
        stream = gpu.stream()
        if free[k % 3] is not None:
            free[k % 3].wait(stream)
        stream.copy_in(chunk, buffers[k % 3])
        stream.launch(squared, buffers[k % 3], buffers[k % 3])
        stream.copy_out(buffers[k % 3], result)
        free[k % 3] = gpu.event()
        free[k % 3].record(stream)


@right("pipeline")
def three_at_a_time(gpu, chunks, results):
    lanes = [(gpu.stream(), gpu.buffer(chunks.shape[1])) for _ in range(3)]
    for first in range(0, len(chunks), 3):
        group = [*zip(lanes, chunks[first : first + 3], results[first : first + 3], strict=False)]
        for (stream, buffer), chunk, _ in group:
            stream.copy_in(chunk, buffer)
        for (stream, buffer), _, _ in group:
            stream.launch(lambda values: np.multiply(values, values, out=values), buffer)
        for (stream, buffer), _, result in group:
            stream.copy_out(buffer, result)
