// The kernels of benchmarks/native_kernels.py in OpenCL C, for benchmarks/pocl_speed.py: the same
// algorithm, the same work for each work-item, the same launch. Sizes come as -D options.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

kernel void add(global const float *a, global const float *b, global float *c, int n) {
  int i = get_global_id(0);
  if (i < n) c[i] = a[i] + b[i];
}

kernel void saxpy(float a, global const float *x, global float *y, int n) {
  for (int i = get_global_id(0); i < n; i += get_global_size(0)) y[i] = a * x[i] + y[i];
}

kernel void mandelbrot(global int *out, int n) {
  int i = get_global_id(0);
  if (i >= n) return;
  double cx = -2 + 2.5 * (i % SIDE) / SIDE, cy = -1.25 + 2.5 * (i / SIDE) / SIDE;
  double x = 0, y = 0;
  int k = 0;
  while (k < LIMIT && x * x + y * y < 4) {
    double next = x * x - y * y + cx;
    y = 2 * x * y + cy;
    x = next;
    k++;
  }
  out[i] = k;
}

float uniform_float32(ulong *s) {
  ulong s0 = s[0], s1 = s[1], result = s0 + s1;
  s1 ^= s0;
  s[0] = ((s0 << 55) | (s0 >> 9)) ^ s1 ^ (s1 << 14);
  s[1] = (s1 << 36) | (s1 >> 28);
  return (float)((result >> 11) * 0x1p-53);
}

kernel void inside(global ulong *states, global int *count) {
  int i = get_global_id(0), own = 0;
  ulong s[2] = {states[2 * i], states[2 * i + 1]};
  for (int k = 0; k < POINTS; k++) {
    float x = uniform_float32(s), y = uniform_float32(s);
    if (x * x + y * y < 1) own++;
  }
  states[2 * i] = s[0];
  states[2 * i + 1] = s[1];
  atomic_add(count, own);
}

kernel void histogram(global const float *values, global int *bins, int n) {
  for (int i = get_global_id(0); i < n; i += get_global_size(0))
    atomic_inc(&bins[(int)(values[i] * (float)BINS)]);
}

kernel void histogram_shared(global const float *values, global int *bins, int n) {
  local int own[BINS];
  for (int b = get_local_id(0); b < BINS; b += get_local_size(0)) own[b] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = get_global_id(0); i < n; i += get_global_size(0))
    atomic_inc(&own[(int)(values[i] * (float)BINS)]);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int b = get_local_id(0); b < BINS; b += get_local_size(0)) atomic_add(&bins[b], own[b]);
}

// OpenCL 1.2 has no atomic addition of floats: compare and exchange, until it was undisturbed.
void add_float(volatile global float *at, float value) {
  union { uint bits; float number; } old, sum;
  do {
    old.number = *at;
    sum.number = old.number + value;
  } while (atomic_cmpxchg((volatile global uint *)at, old.bits, sum.bits) != old.bits);
}

kernel void tree_sum(global const float *x, global float *total, int n) {
  local float shared[256];
  int t = get_local_id(0), i = get_global_id(0);
  shared[t] = i < n ? x[i] : 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_ = 128; half_ > 0; half_ /= 2) {
    if (t < half_) shared[t] += shared[t + half_];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (t == 0) add_float(total, shared[0]);
}

kernel void product(global const float *a, global const float *b, global float *c) {
  local float left[TILE][TILE], right[TILE][TILE];
  int j = get_global_id(0), i = get_global_id(1), x = get_local_id(0), y = get_local_id(1);
  float total = 0;
  for (int tile = 0; tile < EDGE; tile += TILE) {
    left[y][x] = a[i * EDGE + tile + x];
    right[y][x] = b[(tile + y) * EDGE + j];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < TILE; k++) total += left[y][k] * right[k][x];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[i * EDGE + j] = total;
}

kernel void masses(global const long *offsets, global const char *charge, global const double *pt,
                   global const double *eta, global const double *phi, global int *bins,
                   int events, int size) {
  int event = get_global_id(0);
  if (event >= events) return;
  for (long i = offsets[event]; i < offsets[event + 1]; i++)
    for (long j = i + 1; j < offsets[event + 1]; j++)
      if (charge[i] != charge[j]) {
        int at = (int)sqrt(2 * pt[i] * pt[j] * (cosh(eta[i] - eta[j]) - cos(phi[i] - phi[j])));
        if (at < size) atomic_inc(&bins[at]);
      }
}
