/* libFuzzer around the `main` of an exported network: bytes become its files and arguments. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int program_main(int argc, char **argv);

enum { FILES = 3 };

static const char *names[FILES] = {WEIGHTS, "x", "t"};
static struct { const uint8_t *bytes; size_t size; } files[FILES], right[FILES];

/* What the program is compiled with for `fopen`, `rename` and `remove`: files in memory, of which none is written. */
FILE *memory_file(const char *name, const char *mode);
FILE *memory_file(const char *name, const char *mode) {
    if (mode[0] != 'r') return fopen("/dev/null", mode);
    for (int k = 0; k < FILES; ++k)
        if (!strcmp(name, names[k])) return fmemopen((void *)(uintptr_t)files[k].bytes, files[k].size, mode);
    return NULL;
}
int memory_rename(const char *from, const char *to);
int memory_rename(const char *from, const char *to) { return !from || !to; }
int memory_remove(const char *name);
int memory_remove(const char *name) { return !name; }

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    static const char *given[FILES] = {"right.weights", "right.inputs", "right.targets"};
    for (int k = 0; k < FILES; ++k) {
        static uint8_t kept[FILES][1 << 16];
        FILE *file = fopen(given[k], "rb");
        if (!file) abort();
        right[k].bytes = kept[k];
        right[k].size = fread(kept[k], 1, sizeof kept[k], file);
        fclose(file);
    }
    return 0;
}

/* The first byte says which file the others are, all others being right ones, and which command is given. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (size < 2) return 0;
    static const char *commands[] = {"infer", "test", "train"};
    int what = bytes[0] % 4, command = bytes[0] / 4 % 3;
    char epochs[4] = "1", *given[] = {"program", (char *)(uintptr_t)commands[command], "x", "t", epochs, NULL};
    memcpy(files, right, sizeof files);
    if (what < FILES) {
        files[what].bytes = bytes + 1;
        files[what].size = size - 1;
    } else { /* the number of epochs, with so few digits that it does not take long */
        memset(epochs, 0, sizeof epochs);
        memcpy(epochs, bytes + 1, size > 2 ? 2 : 1);
    }
    int status = program_main(command + 3, given);
    if (status < 0 || status > 2) abort();
    return 0;
}
