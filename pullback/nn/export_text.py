"""The parts of an exported network's `main.c`, with placeholders that `export_main` fills in.

Files are read to their end and checked before anything is computed. If a sample is incomplete, not finite, or of an
unknown class, the error names the file and the count, and nothing is written.
"""

from __future__ import annotations

from typing import Final

from pullback.templates import filled

__all__ = [
    "ERROR",
    "FILES",
    "FINISHED",
    "FINITE",
    "INFER",
    "LABELS",
    "LOAD",
    "NOT_FINITE",
    "OPEN",
    "RIGHT",
    "SAVE",
    "TRAIN",
]

NOT_FINITE: Final = """\
/* The first element that is NaN or infinite, -1 where there is none; of kind 'f' for float, 'd' for double. */
static long not_finite(const void *data, size_t bytes, char kind) {
    const size_t count = kind == 'f' ? bytes / sizeof(float) : kind == 'd' ? bytes / sizeof(double) : 0;
    for (size_t k = 0; k < count; ++k)
        if (!isfinite(kind == 'f' ? ((const float *)data)[k] : ((const double *)data)[k])) return (long)k;
    return -1;
}"""

LOAD: Final = """\
/* Whether the arrays are finite. */
static int sound(void) {
    for (size_t k = 0; k < sizeof arrays / sizeof *arrays; ++k)
        if (not_finite(arrays[k].data, arrays[k].bytes, arrays[k].kind) >= 0) return 0;
    return 1;
}

static int load(void) {
    static unsigned char found[sizeof head + 7];
    FILE *file = fopen(WEIGHTS, "rb");
    if (!file) {
        perror(WEIGHTS);
        return 0;
    }
    size_t size = 0;
    int fits = fread(found, 1, sizeof found, file) == sizeof found;
    for (int k = 7; k >= 0; --k) size = size << 8 | found[k];
    fits = fits && size == sizeof head - 1 && !memcmp(found + 8, head, size);
    for (size_t k = 0; fits && k < sizeof arrays / sizeof *arrays; ++k)
        fits = fread(arrays[k].data, 1, arrays[k].bytes, file) == arrays[k].bytes;
    fits = fits && fgetc(file) == EOF;
    fclose(file);
    if (!fits)
        fprintf(stderr, "%s: not the %ld bytes of weights of this network, or damaged\\n", WEIGHTS, WEIGHTS_BYTES);
    else if (!sound())
        fprintf(stderr, "%s: a weight is not finite\\n", WEIGHTS);
    return fits && sound();
}"""

SAVE: Final = """\
/* The file is there whole or as it was. */
static int save(void) {
    if (!sound()) {
        fprintf(stderr, "%s: not written, as a weight is not finite\\n", WEIGHTS);
        return 0;
    }
    FILE *file = fopen(WEIGHTS ".new", "wb");
    int written = file != NULL;
    for (int k = 0; written && k < 8; ++k) written = fputc((int)((sizeof head - 1) >> 8 * k & 255), file) != EOF;
    written = written && fwrite(head, 1, sizeof head - 1, file) == sizeof head - 1;
    for (size_t k = 0; written && k < sizeof arrays / sizeof *arrays; ++k)
        written = fwrite(arrays[k].data, 1, arrays[k].bytes, file) == arrays[k].bytes;
    if (file) written = !fclose(file) && written;
#ifdef _WIN32
    if (written) remove(WEIGHTS);
#endif
    written = written && !rename(WEIGHTS ".new", WEIGHTS);
    if (!written) {
        perror(WEIGHTS ".new");
        if (file) remove(WEIGHTS ".new");
    }
    return written;
}"""

OPEN: Final = """\
/* Whether all of a file is numbers written as text, not their bytes. */
static int is_text(FILE *file) {
    long count = 0;
    int byte = getc(file);
    for (; byte > 0 && strchr("0123456789+-.,;eE()[] \\t\\r\\n", byte); byte = getc(file)) ++count;
    rewind(file);
    return count && byte == EOF;
}

/* The file at its beginning, after all of it was read and found right: whole samples, each of which `fits` says is as
   it should be when it is in `data`. Otherwise NULL and a message. */
static FILE *opened(const char *name, void *data, size_t bytes, int (*fits)(const char *, long), long *samples) {
    FILE *file = fopen(name, "rb");
    const int text = file && is_text(file);
    size_t size = bytes;
    int right = file && !text;
    if (text) fprintf(stderr, "%s: text, where the bytes of numbers are wanted\\n", name);
    for (*samples = 0; right && size == bytes; *samples += size == bytes) {
        size = fread(data, 1, bytes, file);
        right = size < bytes || fits(name, *samples);
    }
    if (!file || (right && (ferror(file) || fseek(file, 0, SEEK_SET)))) {
        perror(name);
        right = 0;
    } else if (right && (size || !*samples)) {
        fprintf(stderr, "%s: %ld samples of %lu bytes and %lu bytes more\\n", name, *samples, (unsigned long)bytes,
            (unsigned long)size);
        right = 0;
    }
    if (file && !right) fclose(file);
    return right ? file : NULL;
}

/* Whether the next bytes were read. */
static int next(FILE *file, const char *name, void *data, size_t bytes) {
    if (fread(data, 1, bytes, file) == bytes) return 1;
    fprintf(stderr, "%s: changed while it was read\\n", name);
    return 0;
}"""

FINITE: Final = """\
static int {{name}}_fits(const char *name, long sample) {
    const long wrong = not_finite({{name}}, {{bytes}}, {{kind}});
    if (wrong >= 0) fprintf(stderr, "%s: sample %ld: element %ld is not finite\\n", name, sample, wrong);
    return wrong < 0;
}"""

LABELS: Final = """\
static int {{name}}_fits(const char *name, long sample) {
    for (int k = 0; k < {{count}}; ++k) {
        const long long label = (long long){{name}}[k];
        if (label >= 0 && label < {{classes}}) continue;
        fprintf(stderr, "%s: sample %ld: the label is %lld, and there are {{classes}} classes\\n", name, sample, label);
        return 0;
    }
    return 1;
}"""

FILES: Final = """\
/* The arrays of a sample, each in a file of its own: inputs, then targets. */
static const struct {
    void *data;
    size_t bytes;
    int (*fits)(const char *, long);
    const char *kind;
} fields[] = {
{{rows}}
};

static FILE *files[{{count}}];

static int close_all(int status) {
    for (int k = 0; k < {{count}}; ++k)
        if (files[k]) fclose(files[k]);
    return status;
}

/* How many samples each of the first `count` files has; -1 where there is something wrong with them. */
static long open_all(char **names, int count) {
    long samples[{{count}}];
    int right = 1;
    for (int k = 0; k < count; ++k) {
        files[k] = opened(names[k], fields[k].data, fields[k].bytes, fields[k].fits, &samples[k]);
        right = right && files[k] != NULL;
    }
    for (int k = 1; right && k < count; ++k) {
        if (samples[k] == samples[0]) continue;
        fprintf(stderr, "%s: %ld %s, %s: %ld %s\\n", names[0], samples[0], fields[0].kind, names[k], samples[k],
            fields[k].kind);
        right = 0;
    }
    return right ? samples[0] : -1;
}

/* Whether the next samples were read from the first `count` files. */
static int next_all(char **names, int count, size_t samples) {
    for (int k = 0; k < count; ++k)
        if (!next(files[k], names[k], fields[k].data, samples * fields[k].bytes)) return 0;
    return 1;
}"""

INFER: Final = """\
static int infer_file(char **names) {
    const long samples = open_all(names, {{inputs}});
    long done = 0;
    for (; done < samples && next_all(names, {{inputs}}, 1) && run(); ++done) {
{{shown}}
    }
    return close_all(samples < 0 || done < samples);
}"""

BOTH: Final = """\
static int test_file(char **names) {
    const long samples = open_all(names, {{fields}});
    long done = 0;
    {{variable}};
    for (; done < samples && next_all(names, {{fields}}, 1) && run(); ++done) {
{{look}}
    }
    if (done == samples) {{say}};
    return close_all(done != samples);
}"""

RIGHT: Final = filled(
    BOTH,
    {
    "fields": "{{fields}}",
    "variable": "long right = 0",
    "look": """\
        for (int row = 0; row < {{count}}; ++row) {
            int best = 0;
            for (int k = 1; k < {{classes}}; ++k)
                if (result[row * {{classes}} + k] > result[row * {{classes}} + best]) best = k;
            right += best == (long){{target}}[row];
        }""",
    "say": 'printf("%ld of %ld right\\n", right, samples * {{count}})',
    },
)

ERROR: Final = filled(
    BOTH,
    {
    "fields": "{{fields}}",
    "variable": "double total = 0",
    "look": """\
        for (int k = 0; k < {{count}}; ++k) {
            const double difference = (double)result[k] - (double){{target}}[k];
            total += difference * difference;
        }""",
    "say": 'printf("mean squared error %.9g\\n", total / {{count}} / (double)samples)',
    },
)

TRAIN: Final = """\
/* Whether an update was made for the samples that were read; the loss before it is added to `total`. */
static int update(double *total) {
    {{loss}} loss;
{{call}}
    if (!isfinite(loss)) {
        fprintf(stderr, "the loss is not finite after %ld updates\\n", (long)step[0]);
        return 0;
    }
{{copies}}
    ++step[0];
    *total += (double)loss;
    return 1;
}

/* Whether as many epochs were trained; what is less than a batch at the end is left out. */
static int train(char **names, long samples, long epochs) {
    const long updates = samples / {{batch}};
    for (long epoch = 1; epoch <= epochs; ++epoch) {
        double total = 0;
        for (int k = 0; k < {{fields}}; ++k) rewind(files[k]);
        for (long k = 0; k < updates; ++k)
            if (!next_all(names, {{fields}}, {{batch}}) || !update(&total)) return 0;
        if (!save()) return 0;
        printf("epoch %ld  loss %.6g\\n", epoch, total / (double)updates);
    }
    return 1;
}

static int train_file(char **names, const char *count) {
    char *end;
    const long epochs = strtol(count, &end, 10);
    if (epochs < 1 || *end) {
        fprintf(stderr, "%s: a number of epochs is wanted, from 1 up\\n", count);
        return 1;
    }
    const long samples = open_all(names, {{fields}});
    if (samples >= 0 && samples < {{batch}})
        fprintf(stderr, "%s: %ld samples, less than a batch of {{batch}}\\n", names[0], samples);
    return close_all(samples < {{batch}} || !train(names, samples, epochs));
}"""

FINISHED: Final = """\
/* The exit status: an error also where the output cannot be written. */
static int finished(int status) {
    if (!fflush(stdout) && !ferror(stdout)) return status;
    perror("standard output");
    return 1;
}"""
