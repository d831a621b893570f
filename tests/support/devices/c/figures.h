/* Attributes of a device, as numbered by CUDA, and names of errors. */
#pragma once
#include "settings.h"

static std::map<int, int> attributes(int device) {
    return {{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {39, 2048}, /* threads of a group, of a multiprocessor */
            {5, 0x7fffffff}, {6, 65535}, {7, 65535}, {106, 32}, /* groups of a grid, of a multiprocessor */
            {8, 49152}, {97, 232448}, {81, 233472}, {12, 65536}, {82, 65536}, /* shared bytes, registers */
            {10, 32}, {16, wanted.multiprocessors}, {75, wanted.capability / 10}, {76, wanted.capability % 10},
            {13, 1980000}, {36, 2619000}, {37, 5120}, {38, 52428800}, /* clocks, bits of the bus, cache */
            {19, 1}, {31, 1}, {40, 3}, {41, 1}, {83, 0}, {115, 1}, /* what it is able to do */
            {33, device + 1}, {34, 0}, {50, 0}};
}

static const std::map<int, const char *> ERRORS = {
    {0, "CUDA_SUCCESS"}, {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"},
    {3, "CUDA_ERROR_NOT_INITIALIZED"}, {100, "CUDA_ERROR_NO_DEVICE"}, {101, "CUDA_ERROR_INVALID_DEVICE"},
    {200, "CUDA_ERROR_INVALID_IMAGE"}, {201, "CUDA_ERROR_INVALID_CONTEXT"}, {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE"}, {400, "CUDA_ERROR_INVALID_HANDLE"}, {500, "CUDA_ERROR_NOT_FOUND"},
    {600, "CUDA_ERROR_NOT_READY"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}, {702, "CUDA_ERROR_LAUNCH_TIMEOUT"},
    {719, "CUDA_ERROR_LAUNCH_FAILED"}, {801, "CUDA_ERROR_NOT_SUPPORTED"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"}, {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"}, {999, "CUDA_ERROR_UNKNOWN"}};
