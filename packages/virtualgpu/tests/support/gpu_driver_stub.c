/* A libcuda.so.1 without a GPU: cuda.bindings asks it for the driver's functions by name and gets
   whatever a test has put there. */
#include <string.h>

static struct { char name[96]; void *function; } table[512];
static int count = 0;

int stub_set(const char *name, void *function)
{
    if (count == 512) return 1;
    strncpy(table[count].name, name, 95);
    table[count++].function = function;
    return 0;
}

int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags,
                        int *status)
{
    for (int i = count - 1; i >= 0; i--)
        if (!strcmp(table[i].name, name)) {
            *function = table[i].function;
            if (status) *status = 0;
            return 0;
        }
    *function = 0;
    if (status) *status = 1;
    return 500;  /* CUDA_ERROR_NOT_FOUND */
}

int cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags)
{
    return cuGetProcAddress_v2(name, function, version, flags, 0);
}
