/* Calls of compiled functions, without Python between the arguments and the machine code.

   An Entry holds the address of a compiled function and what its arrays must be. Calling it checks each argument
   (element type, shape, contiguity, alignment), makes the results or takes them from out=, lends the arena and calls.
   Whatever does not fit is answered with NotImplemented: the caller then goes the long way, which converts or explains.
   Arrays that only lie otherwise in memory are copied. Among the arguments may be values that the function was compiled
   for: they must be the same. Where it says so, numbers do for arrays of rank 0. Arrays that are held follow the
   arguments.

   Arguments and results may be trees. The form of a tree has integers at its leaves, sums of 2 for a complex array, which
   is two for the function, its parts, opened into lent memory and joined from there, and of 1 for a result that is an
   array even where it has no axes. A tuple is a tuple of forms, None is None, and any other node is a list [type, keys,
   forms, make]: of a list, a dict, a named tuple or a dataclass; the last two are made by `make(children)`.

   `quick_class` makes a subclass of a Python class whose instances, once quickened, try the entries in the list of their
   slot `_entries` when they are called, and then their method `_call_slowly`: the arguments come as CPython's vectorcall
   has them, so neither a tuple nor a dict is made. The entry that served a call comes to the front of the list. Other
   callables in the list, entries in Python, take the arguments as they are.

   Wheels may bring this file compiled (`build_shim.py`), for CPython 3.12 and later with Py_LIMITED_API and so for the
   stable ABI, which has CPython's form of calls since then. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <structmember.h>
#define NPY_NO_DEPRECATED_API NPY_1_20_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION /* the first in which arrays say how their memory is made */
#include <numpy/arrayobject.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#ifdef Py_LIMITED_API /* the stable ABI has as functions what is macros, and of context variables their methods */
#define PyTuple_GET_SIZE PyTuple_Size
#define PyTuple_GET_ITEM PyTuple_GetItem
#define PyTuple_SET_ITEM PyTuple_SetItem
#define PyList_GET_SIZE PyList_Size
#define PyList_GET_ITEM PyList_GetItem
#define PyFloat_AS_DOUBLE PyFloat_AsDouble
static PyObject *reader_of(PyObject *variable) { return PyObject_GetAttrString(variable, "get"); }
static PyObject *read_now(PyObject *reader) { return PyObject_Vectorcall(reader, (PyObject *[]){Py_None}, 1, NULL); }
#else
static PyObject *reader_of(PyObject *variable) { return Py_NewRef(variable); }
static PyObject *read_now(PyObject *reader) {
    PyObject *value;
    return PyContextVar_Get(reader, Py_None, &value) < 0 ? NULL : value;
}
#endif

/* Without the interpreter lock (free-threaded CPython) what threads share has locks of its own, and what lies in lists
   and dictionaries that others may change is taken as a new reference. */
#ifdef Py_GIL_DISABLED
static PyMutex idle_lock, order_lock;
#define LOCK(mutex) PyMutex_Lock(&mutex)
#define UNLOCK(mutex) PyMutex_Unlock(&mutex)
#define list_item PyList_GetItemRef
#define entries_of(self) PyObject_GetAttr(self, word_entries)
#else
#define LOCK(mutex) ((void)0)
#define UNLOCK(mutex) ((void)0)
static inline PyObject *list_item(PyObject *list, Py_ssize_t k) { return Py_NewRef(PyList_GET_ITEM(list, k)); }
#define entries_of(self) Py_XNewRef(*(PyObject **)((char *)self + entries_at))
#endif

#if defined(__GNUC__) && !defined(__clang__)
#define QUICK __attribute__((optimize("O3")))
#else
#define QUICK
#endif
#ifdef __GNUC__
#define APART __attribute__((noinline))
#define ALWAYS __attribute__((always_inline))
#else
#define APART
#define ALWAYS
#endif

#define MOST_ARRAYS 256
#define MOST_AXES 16
#define MOST_FIXED 16
#define MOST_LEAVES (MOST_ARRAYS + MOST_FIXED)
#define MOST_ARGUMENTS 64 /* of a call with names or defaults */
#define MOST_DIMS 12
#define MOST_POINTERS 64 /* arguments of a function that is called without ctypes */
#define COMPLEX 2 /* what a leaf of a form says */
#define AS_ARRAY 1
#define OR_NUMBER 1 /* what an input of rank 0 may be */
#define ONLY_NUMBER 2

typedef struct {
    int type; /* NumPy's number of the element type */
    int axes;
    int number; /* of an input of rank 0: OR_NUMBER, ONLY_NUMBER, or 0 */
    int taken;  /* of an output: 1 + the input that may be the same array, or 0 */
    npy_intp shape[MOST_AXES];
    size_t bytes;
} Array;

typedef struct {
    PyObject_VAR_HEAD
    vectorcallfunc vectorcall;
    void *address;
    int inputs, outputs;
    int opens, joins; /* of how many complex arrays the parts are inputs and outputs */
    PyObject *given_form;  /* of the tuple of all arguments; None where each of them is a leaf */
    PyObject *result_form; /* of the result */
    PyObject *names;       /* of the parameters: a tuple of strings */
    PyObject *defaults;    /* of parameters: a dict by name */
    Py_ssize_t arguments;  /* how many there are, and how many may come without their names */
    Py_ssize_t positional;
    int fixed;             /* values among the leaves of the arguments: where, and a tuple of what they must be */
    Py_ssize_t fixed_at[MOST_FIXED];
    PyObject *fixed_value;
    PyObject *held; /* a tuple of arrays: the last inputs */
    int dims; /* integers that the function takes after its arrays, each in the place of a pointer */
    void *dim[MOST_DIMS];
    size_t arena_bytes;
    int checked;
    int threaded; /* takes a pool, which may be none */
    void *pool;
    long long count, usual; /* of threads that a quick call must ask for, and that one without a block around it does */
    long long left;         /* how many calls it serves yet; -1 for all */
    char used;              /* set by a call */
    int brief; /* takes so little time that the interpreter lock is better kept */
    PyObject *failed;
    PyObject *owner; /* what keeps the machine code loaded */
    size_t joined_bytes;
    char joined[MOST_ARRAYS]; /* of each output, whether it and the next one are the parts of a complex array */
    Array arrays[];           /* inputs, then outputs */
} Entry;

/* Working memory that no call uses just now, the latest first. It serves calls of all functions and sizes, and is freed
   where there is more of it than is kept, that which was used longest ago first. The interpreter lock guards it, or `idle_lock`. */

#define MOST_IDLE 32
#define LEAST_ARENA 4096 /* all that need less share */
#define MOST_UNUSED 4    /* an arena serves what needs at least such a part of it */
#define HUGE_PAGES ((size_t)1 << 22)

typedef struct {
    void *start;
    size_t bytes;
} Arena;

static Arena idle[MOST_IDLE + 1];
static int idle_count;
static size_t idle_bytes, most_idle_bytes;

static Arena take(int k) {
    Arena found = idle[k];
    idle_bytes -= found.bytes;
    --idle_count;
    for (; k < idle_count; ++k) idle[k] = idle[k + 1];
    return found;
}

static Arena new_arena(size_t bytes) {
    Arena made = {NULL, bytes};
    if (posix_memalign(&made.start, bytes < HUGE_PAGES ? 64 : 4096, bytes)) made.start = NULL;
#ifdef MADV_HUGEPAGE
    else if (bytes >= HUGE_PAGES) madvise(made.start, bytes, MADV_HUGEPAGE);
#endif
    return made;
}

/* An idle arena for so many bytes; one without a start where there is none. What is nearly large enough
   goes. */
static Arena take_fitting(size_t bytes) {
    Arena found = {NULL, 0};
    int small = -1;
    LOCK(idle_lock);
    for (int k = 0; !found.start && k < idle_count; ++k) {
        if (idle[k].bytes / MOST_UNUSED > bytes) continue;
        if (bytes <= idle[k].bytes) found = take(k);
        else if (small < 0 && bytes / MOST_UNUSED <= idle[k].bytes) small = k;
    }
    if (!found.start && small >= 0) free(take(small).start);
    UNLOCK(idle_lock);
    return found;
}

/* An arena of at least so many bytes; one without a start where there is no memory. A new one has room for what is a
   little larger, so that growing sizes leave no trail. */
static Arena lend(size_t bytes) {
    if (bytes < LEAST_ARENA) bytes = LEAST_ARENA;
    Arena found = take_fitting(bytes);
    return found.start ? found : new_arena(bytes + bytes / 8);
}

static void give_back(Arena a) {
    LOCK(idle_lock);
    for (int k = idle_count++; k > 0; --k) idle[k] = idle[k - 1];
    idle[0] = a;
    idle_bytes += a.bytes;
    while (idle_count > MOST_IDLE || (idle_count > 1 && idle_bytes > most_idle_bytes)) free(take(idle_count - 1).start);
    UNLOCK(idle_lock);
}

/* Large results lie in such memory too, and go back to it when nobody has them any more: fresh pages cost more than
   most functions do that fill them. Before a result lie the address and the size of its arena. Results are kept
   for long, so they take no arena that is much larger than they are; and one alone that is larger than all that is to
   be idle is freed at once.

   A result begins with a page. Processors compare the last twelve bits of addresses first: a load waits for an earlier
   store that has the same. Operands of a size mostly begin at the first bytes of a page, and loads run ahead of
   stores, so a result must not begin some bytes further on. */

#define LARGE_RESULT ((size_t)1 << 20)
#define PAGE ((size_t)4096)
#define HEAD (PAGE + sizeof(Arena)) /* the most that lies before a result */

static Arena *head_of(void *result) { return (Arena *)result - 1; }

static void *result_malloc(void *context, size_t bytes) {
    (void)context;
    if (bytes > SIZE_MAX - HEAD) return NULL;
    bytes += HEAD;
    Arena a = {NULL, 0};
    LOCK(idle_lock);
    for (int k = 0; !a.start && k < idle_count; ++k)
        if (bytes <= idle[k].bytes && idle[k].bytes - bytes <= bytes / 8) a = take(k);
    UNLOCK(idle_lock);
    if (!a.start) a = new_arena(bytes);
    if (!a.start) return NULL;
    void *result = (void *)(((uintptr_t)a.start + HEAD - 1) / PAGE * PAGE);
    *head_of(result) = a;
    return result;
}

static void *result_calloc(void *context, size_t count, size_t size) {
    if (size && count > SIZE_MAX / size) return NULL;
    void *made = result_malloc(context, count * size);
    if (made) memset(made, 0, count * size);
    return made;
}

static void result_free(void *context, void *result, size_t bytes) {
    (void)context, (void)bytes; /* of the array, which may have been reshaped since */
    if (!result) return;
    Arena a = *head_of(result);
    if (a.bytes > most_idle_bytes) free(a.start);
    else give_back(a);
}

static void *result_realloc(void *context, void *result, size_t bytes) {
    void *made = result_malloc(context, bytes);
    if (made && result) {
        size_t room = head_of(result)->bytes - HEAD;
        memcpy(made, result, room < bytes ? room : bytes);
        result_free(context, result, room);
    }
    return made;
}

static PyDataMem_Handler result_memory = {
    "pullback", 1, {NULL, result_malloc, result_calloc, result_realloc, result_free}};
static PyObject *result_handler; /* a capsule with it */

/* A new array, not initialized. */
static PyObject *new_result(int axes, const npy_intp *shape, int type, size_t bytes) {
    if (bytes < LARGE_RESULT) return PyArray_SimpleNew(axes, (npy_intp *)shape, type);
    PyObject *others = PyDataMem_SetHandler(result_handler);
    if (!others) return NULL;
    PyObject *made = PyArray_SimpleNew(axes, (npy_intp *)shape, type);
    PyObject *own = PyDataMem_SetHandler(others);
    Py_DECREF(others);
    if (!own) Py_CLEAR(made);
    Py_XDECREF(own);
    return made;
}

static int call_address(void *address, void **p, int count) {
#define P1(k) p[k]
#define P4(k) p[k], p[k + 1], p[k + 2], p[k + 3]
#define P16(k) P4(k), P4(k + 4), P4(k + 8), P4(k + 12)
#define T1 void *
#define T4 void *, void *, void *, void *
#define T16 T4, T4, T4, T4
#define CASE(n, types, values) \
    case n: \
        return ((int (*)(types))address)(values)
#define LIST(...) __VA_ARGS__
#define QUAD(n, types, values) \
    CASE(n, LIST(types), LIST(values)); \
    CASE(n + 1, LIST(types, T1), LIST(values, P1(n))); \
    CASE(n + 2, LIST(types, T1, T1), LIST(values, P1(n), P1(n + 1))); \
    CASE(n + 3, LIST(types, T1, T1, T1), LIST(values, P1(n), P1(n + 1), P1(n + 2)))
    switch (count) {
        CASE(0, void, );
        CASE(1, LIST(T1), LIST(P1(0)));
        CASE(2, LIST(T1, T1), LIST(P1(0), P1(1)));
        CASE(3, LIST(T1, T1, T1), LIST(P1(0), P1(1), P1(2)));
        QUAD(4, LIST(T4), LIST(P4(0)));
        QUAD(8, LIST(T4, T4), LIST(P4(0), P4(4)));
        QUAD(12, LIST(T4, T4, T4), LIST(P4(0), P4(4), P4(8)));
        QUAD(16, T16, P16(0));
        QUAD(20, LIST(T16, T4), LIST(P16(0), P4(16)));
        QUAD(24, LIST(T16, T4, T4), LIST(P16(0), P4(16), P4(20)));
        QUAD(28, LIST(T16, T4, T4, T4), LIST(P16(0), P4(16), P4(20), P4(24)));
        QUAD(32, LIST(T16, T16), LIST(P16(0), P16(16)));
        QUAD(36, LIST(T16, T16, T4), LIST(P16(0), P16(16), P4(32)));
        QUAD(40, LIST(T16, T16, T4, T4), LIST(P16(0), P16(16), P4(32), P4(36)));
        QUAD(44, LIST(T16, T16, T4, T4, T4), LIST(P16(0), P16(16), P4(32), P4(36), P4(40)));
        QUAD(48, LIST(T16, T16, T16), LIST(P16(0), P16(16), P16(32)));
        QUAD(52, LIST(T16, T16, T16, T4), LIST(P16(0), P16(16), P16(32), P4(48)));
        QUAD(56, LIST(T16, T16, T16, T4, T4), LIST(P16(0), P16(16), P16(32), P4(48), P4(52)));
        QUAD(60, LIST(T16, T16, T16, T4, T4, T4), LIST(P16(0), P16(16), P16(32), P4(48), P4(52), P4(56)));
        CASE(64, LIST(T16, T16, T16, T16), LIST(P16(0), P16(16), P16(32), P16(48)));
    }
    return -1; /* not reached: more go through the owner */
}

/* Whether an argument is just what the function takes. */
static inline ALWAYS int fits(PyObject *object, const Array *a, int flags) {
    if (!PyArray_CheckExact(object)) return 0;
    PyArrayObject *x = (PyArrayObject *)object;
    int type = PyArray_TYPE(x);
    if (type != a->type && !PyArray_EquivTypenums(type, a->type)) return 0;
    if (PyArray_NDIM(x) != a->axes || !PyArray_CHKFLAGS(x, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | flags)
        || !PyArray_ISNOTSWAPPED(x))
        return 0;
    for (int k = 0; k < a->axes; ++k)
        if (PyArray_DIM(x, k) != a->shape[k]) return 0;
    return 1;
}

/* Complex arrays. Whoever computes wants their parts apart. */

#define PARTS(name, T) \
    QUICK static void open_##name(const T *restrict z, T *restrict real, T *restrict imag, size_t n) { \
        for (size_t k = 0; k < n; ++k) real[k] = z[2 * k], imag[k] = z[2 * k + 1]; \
    } \
    QUICK static void join_##name(T *restrict z, const T *restrict real, const T *restrict imag, size_t n) { \
        for (size_t k = 0; k < n; ++k) z[2 * k] = real[k], z[2 * k + 1] = imag[k]; \
    }
PARTS(double, double)
PARTS(float, float)

static int complex_type(int type) { return type == NPY_DOUBLE ? NPY_CDOUBLE : type == NPY_FLOAT ? NPY_CFLOAT : -1; }

#define ROOM(bytes) (((bytes) + 63) / 64 * 64)

/* The places of two parts in lent memory, and the memory behind them. */
static char *two_parts(const Array *part, void **pointers, char *room) {
    pointers[0] = room;
    pointers[1] = room + ROOM(part->bytes);
    return room + 2 * ROOM(part->bytes);
}

static void open_array(PyObject *object, const Array *part, void **parts) {
    void *z = PyArray_DATA((PyArrayObject *)object);
    if (part->type == NPY_DOUBLE) open_double(z, parts[0], parts[1], part->bytes / sizeof(double));
    else open_float(z, parts[0], parts[1], part->bytes / sizeof(float));
}

static void join_array(PyObject *object, const Array *part, void **parts) {
    void *z = PyArray_DATA((PyArrayObject *)object);
    if (part->type == NPY_DOUBLE) join_double(z, parts[0], parts[1], part->bytes / sizeof(double));
    else join_float(z, parts[0], parts[1], part->bytes / sizeof(float));
}

/* A copy of an array that fits but for where its elements lie; NULL where that is not all. */
APART static PyObject *laid_out(PyObject *object, const Array *a) {
    if (!PyArray_CheckExact(object)) return NULL;
    PyArrayObject *x = (PyArrayObject *)object;
    if (!PyArray_EquivTypenums(PyArray_TYPE(x), a->type) || PyArray_NDIM(x) != a->axes || !PyArray_ISNOTSWAPPED(x))
        return NULL;
    for (int k = 0; k < a->axes; ++k)
        if (PyArray_DIM(x, k) != a->shape[k]) return NULL;
    PyObject *made = PyArray_NewCopy(x, NPY_CORDER);
    if (!made) PyErr_Clear(); /* the long way says what there is no memory for */
    return made;
}

/* An argument as the complex array of which these are the parts, as a new reference: itself, or a copy; NULL where it
   is none. */
APART static PyObject *complex_whole(PyObject *object, const Array *part) {
    Array whole = *part;
    whole.type = complex_type(part->type);
    if (whole.type < 0) return NULL;
    return fits(object, &whole, 0) ? Py_NewRef(object) : laid_out(object, &whole);
}

typedef union {
    double f64;
    float f32;
    npy_int64 i64;
    npy_bool truth;
} Number;

/* The number that an argument is, for an array of rank 0; 0 where it is none. */
static int number(PyObject *object, const Array *a, Number *x) {
    switch (a->type) {
    case NPY_DOUBLE: /* NumPy's number of this type is one of Python's, too */
        if (!(a->number == ONLY_NUMBER ? PyFloat_CheckExact(object) : PyFloat_Check(object))) return 0;
        x->f64 = PyFloat_AS_DOUBLE(object);
        return 1;
    case NPY_FLOAT:
        if (!PyFloat_CheckExact(object)) return 0;
        x->f32 = (float)PyFloat_AS_DOUBLE(object);
        return 1;
    case NPY_INT64:
        if (!PyLong_CheckExact(object)) return 0;
        x->i64 = PyLong_AsLongLong(object);
        if (x->i64 != -1 || !PyErr_Occurred()) return 1;
        PyErr_Clear(); /* it is too large */
        return 0;
    case NPY_BOOL:
        x->truth = object == Py_True;
        return PyBool_Check(object);
    }
    return 0;
}

/* Whether a value is the one that the function was compiled for. */
static int same(PyObject *value, PyObject *wanted) {
    if (value == wanted) return 1;
    if (PyUnicode_CheckExact(wanted)) return PyUnicode_CheckExact(value) && !PyUnicode_Compare(value, wanted);
    if (PyFloat_CheckExact(wanted)) {
        double one = PyFloat_AS_DOUBLE(wanted), other = PyFloat_CheckExact(value) ? PyFloat_AS_DOUBLE(value) : 0.0;
        return PyFloat_CheckExact(value) && !memcmp(&one, &other, sizeof one);
    }
    if (!PyLong_CheckExact(wanted) || !PyLong_CheckExact(value)) return 0;
    long long one = PyLong_AsLongLong(value), other = PyLong_AsLongLong(wanted);
    if (!PyErr_Occurred()) return one == other;
    PyErr_Clear(); /* one of them is too large */
    return 0;
}

static int overlap(const char *p, size_t p_bytes, const char *q, size_t q_bytes) {
    return p < q + q_bytes && q < p + p_bytes;
}

/* Ctrl-C. Generated code holds nothing that could be lost: no lock, no memory of its own. So the signal's handler leaves
   it by a jump, and nothing is asked while it runs. That is for the thread that Python gives signals to, where Python
   would raise KeyboardInterrupt, and for calls that release the interpreter lock. While threads share out chunks of a
   loop the handler leaves a note instead, which the pool reads (`runtime/c/pool.c`): others use what is on this stack. The
   pool ends the chunks that run, each by a jump of its own thread, to which the handler sends the signal on. */

typedef struct {
    volatile sig_atomic_t active, shared, stop;
    pthread_t thread;
    void (*leave)(void);
    void (*stop_chunks)(int number), (*leave_chunk)(void); /* of the pool, once there is one */
    int (*is_worker)(void);
} Guard;

#define INTERRUPTED (-2)
#define LOOKS_APART 100000000 /* nanoseconds between two looks at who handles the signal */

static sigjmp_buf way_out;
static void leave(void) { siglongjmp(way_out, 1); }
static Guard guard = {.leave = leave};
static struct sigaction before; /* the handler of Python, or that of another copy of this extension */
static int guarding, taken;
static int64_t looked;

static void on_interrupt(int number, siginfo_t *info, void *context) {
    int own = pthread_equal(pthread_self(), guard.thread);
    if (!own && guard.is_worker && guard.is_worker()) {
        if (guard.active && guard.stop) guard.leave_chunk(); /* comes back where no chunk runs */
        else pthread_kill(guard.thread, number);
    } else if (!guard.active) {
        if (before.sa_flags & SA_SIGINFO) before.sa_sigaction(number, info, context);
        else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) before.sa_handler(number);
    } else if (!own) {
        pthread_kill(guard.thread, number);
    } else if (guard.shared) {
        if (guard.stop_chunks) guard.stop_chunks(number);
        else guard.stop = 1;
    } else {
        guard.active = 0;
        siglongjmp(way_out, 1);
    }
}

/* Whether Python's own function handles the signal, the one that raises KeyboardInterrupt. */
static int is_default(void) {
    PyObject *module = PyImport_ImportModule("signal"), *found = NULL, *wanted = NULL;
    if (module) found = PyObject_CallMethod(module, "getsignal", "i", SIGINT);
    if (found) wanted = PyObject_GetAttrString(module, "default_int_handler");
    int same = found && found == wanted;
    PyErr_Clear();
    Py_XDECREF(module);
    Py_XDECREF(found);
    Py_XDECREF(wanted);
    return same;
}

static int alike(const struct sigaction *a, const struct sigaction *b) {
    if ((a->sa_flags & SA_SIGINFO) != (b->sa_flags & SA_SIGINFO)) return 0;
    return a->sa_flags & SA_SIGINFO ? a->sa_sigaction == b->sa_sigaction : a->sa_handler == b->sa_handler;
}

/* Whether a call on this thread may be left; looks now and then who handles the signal, and takes it over. A handler
   that stands before this one, such as that of another copy of the extension, hands the signal on to it. To take the
   signal back would make a circle, which no signal ever leaves. */
static int may_leave(void) {
    if (!pthread_equal(pthread_self(), guard.thread) || guard.active) return 0;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    if (looked && now - looked < LOOKS_APART) return guarding;
    looked = now;
    struct sigaction found;
    guarding = 0;
    if (sigaction(SIGINT, NULL, &found) || !is_default()) return 0;
    if (!(found.sa_flags & SA_SIGINFO) || found.sa_sigaction != on_interrupt) {
        if (taken && !alike(&found, &before)) return guarding = 1;
        before = found;
        taken = 1;
        found.sa_sigaction = on_interrupt;
        found.sa_flags |= SA_SIGINFO;
        if (sigaction(SIGINT, &found, NULL)) return 0;
    }
    return guarding = 1;
}

/* The call without the interpreter lock; INTERRUPTED where Ctrl-C ended it. */
static int call_released(void *address, void **pointers, int count) {
    int guarded = may_leave();
    PyThreadState *state = PyEval_SaveThread();
    int code;
    if (!guarded) {
        code = call_address(address, pointers, count);
    } else if (sigsetjmp(way_out, 0)) {
        sigset_t mask;
        sigemptyset(&mask);
        sigaddset(&mask, SIGINT);
        pthread_sigmask(SIG_UNBLOCK, &mask, NULL);
        guard.active = guard.shared = guard.stop = 0;
        code = INTERRUPTED;
    } else {
        guard.stop = 0;
        guard.active = 1;
        code = call_address(address, pointers, count);
        guard.active = 0;
    }
    PyEval_RestoreThread(state);
    return code;
}

#define RAISED (-3)

/* The call of a function of very many arguments, through ctypes; RAISED with an error. */
APART static int call_owner(Entry *self, void **pointers, int count) {
    PyObject *args = PyTuple_New(count), *answer = NULL;
    for (int k = 0; args && k < count; ++k) {
        PyObject *pointer = PyLong_FromVoidPtr(pointers[k]);
        if (pointer) PyTuple_SET_ITEM(args, k, pointer);
        else Py_CLEAR(args);
    }
    if (args) answer = PyObject_Call(self->owner, args, NULL);
    int code = answer ? (int)PyLong_AsLong(answer) : RAISED;
    Py_XDECREF(answer);
    Py_XDECREF(args);
    return code;
}

static int call_now(Entry *self, void **pointers, int64_t fault[2]) {
    int count = self->inputs + self->outputs;
    for (int k = 0; k < self->dims; ++k) pointers[count++] = self->dim[k];
    Arena arena = {NULL, 0};
    if (self->arena_bytes && !(arena = lend(self->arena_bytes)).start) return -1;
    pointers[count++] = arena.start;
    if (self->checked) pointers[count++] = fault;
    if (self->threaded) pointers[count++] = self->pool;
    int code;
    if (count > MOST_POINTERS) code = call_owner(self, pointers, count);
    else if (self->brief) code = call_address(self->address, pointers, count);
    else code = call_released(self->address, pointers, count);
    if (arena.start) give_back(arena);
    return code;
}

static PyObject *plain; /* 0, the commonest leaf of a form */

/* The forms of a node's children, a tuple; NULL of a leaf. */
static inline PyObject *children_of(PyObject *form) {
    return PyTuple_CheckExact(form) ? form : PyList_CheckExact(form) ? PyList_GET_ITEM(form, 2) : NULL;
}

/* The child of a tree whose form is a list, as a new reference; NULL where there is none, or it has another type. */
static PyObject *child_of(PyObject *tree, PyObject *form, Py_ssize_t k) {
    PyObject *type = PyList_GET_ITEM(form, 0), *keys = PyList_GET_ITEM(form, 1), *found;
    Py_ssize_t count = PyTuple_GET_SIZE(keys);
    if ((PyObject *)Py_TYPE(tree) != type) return NULL;
    if (PyList_CheckExact(tree)) found = PyList_GET_SIZE(tree) == count ? list_item(tree, k) : NULL;
    else if (PyTuple_Check(tree)) found = PyTuple_Size(tree) == count ? Py_NewRef(PyTuple_GetItem(tree, k)) : NULL;
    else if (PyDict_CheckExact(tree)) {
        found = PyDict_Size(tree) == count ? PyObject_GetItem(tree, PyTuple_GET_ITEM(keys, k)) : NULL;
    } else found = PyObject_GetAttr(tree, PyTuple_GET_ITEM(keys, k));
    if (!found) PyErr_Clear();
    return found;
}

/* The leaves of a tree, as new references, after *count others; 0 where it has another form or more than `most`. A
   complex array is two of them, of which the second is NULL. */
static int leaves(PyObject *tree, PyObject *form, PyObject **found, Py_ssize_t *count, Py_ssize_t most) {
    if (form == Py_None) return tree == Py_None;
    PyObject *children = form == plain ? NULL : children_of(form);
    if (!children) {
        int arrays = form != plain && PyLong_AsLong(form) & COMPLEX ? 2 : 1;
        if (*count + arrays > most) return 0;
        found[(*count)++] = Py_NewRef(tree);
        if (arrays == 2) found[(*count)++] = NULL;
        return 1;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(children);
    if (children == form) {
        if (!PyTuple_CheckExact(tree) || PyTuple_GET_SIZE(tree) != n) return 0;
        for (Py_ssize_t k = 0; k < n; ++k)
            if (!leaves(PyTuple_GET_ITEM(tree, k), PyTuple_GET_ITEM(form, k), found, count, most)) return 0;
        return 1;
    }
    if (!n && ((PyObject *)Py_TYPE(tree) != PyList_GET_ITEM(form, 0) || PyObject_Size(tree))) return PyErr_Clear(), 0;
    for (Py_ssize_t k = 0; k < n; ++k) {
        PyObject *child = child_of(tree, form, k);
        int fit = child && leaves(child, PyTuple_GET_ITEM(children, k), found, count, most);
        Py_XDECREF(child);
        if (!fit) return 0;
    }
    return 1;
}

static void release(PyObject **found, Py_ssize_t count) {
    while (count) {
        --count;
        Py_XDECREF(found[count]);
    }
}

/* The tree of this form that has the arrays from *next on at its leaves; those of rank 0 as scalars, unless the leaf of
   the form says otherwise. */
static PyObject *tree_of(PyObject *form, PyObject **arrays, int *next) {
    if (form == plain) return PyArray_Return((PyArrayObject *)Py_NewRef(arrays[(*next)++]));
    if (form == Py_None) Py_RETURN_NONE;
    PyObject *children = children_of(form);
    if (!children) {
        PyObject *array = Py_NewRef(arrays[(*next)++]);
        if (PyLong_AsLong(form) & AS_ARRAY) return array;
        return PyArray_Return((PyArrayObject *)array);
    }
    PyObject *made = PyTuple_New(PyTuple_GET_SIZE(children));
    for (Py_ssize_t k = 0; made && k < PyTuple_GET_SIZE(children); ++k) {
        PyObject *child = tree_of(PyTuple_GET_ITEM(children, k), arrays, next);
        if (child) PyTuple_SET_ITEM(made, k, child);
        else Py_CLEAR(made);
    }
    if (!made || children == form) return made;
    PyObject *type = PyList_GET_ITEM(form, 0), *keys = PyList_GET_ITEM(form, 1), *whole;
    if (type == (PyObject *)&PyList_Type) whole = PySequence_List(made);
    else if (type == (PyObject *)&PyDict_Type) {
        whole = PyDict_New();
        for (Py_ssize_t k = 0; whole && k < PyTuple_GET_SIZE(keys); ++k)
            if (PyDict_SetItem(whole, PyTuple_GET_ITEM(keys, k), PyTuple_GET_ITEM(made, k))) Py_CLEAR(whole);
    } else whole = PyObject_CallFunctionObjArgs(PyList_GET_ITEM(form, 3), made, NULL);
    Py_DECREF(made);
    return whole;
}

/* Lends memory for all parts, and opens those arguments there; what is left of it, NULL where there is none. */
APART static char *open_all(Entry *self, void **pointers, const int *opened, int opens, Arena *lent) {
    size_t bytes = self->joined_bytes;
    for (int j = 0; j < opens; ++j) bytes += 2 * ROOM(self->arrays[opened[j]].bytes);
    *lent = lend(bytes);
    char *room = lent->start;
    for (int j = 0; room && j < opens; ++j) {
        PyObject *whole = pointers[opened[j]];
        room = two_parts(&self->arrays[opened[j]], pointers + opened[j], room);
        open_array(whole, &self->arrays[opened[j]], pointers + opened[j]);
    }
    return room;
}

APART static void join_all(Entry *self, void **pointers, PyObject **results) {
    for (int k = 0; k < self->outputs; ++k, ++results) {
        if (!self->joined[k]) continue;
        int at = self->inputs + k++;
        join_array(*results, &self->arrays[at], pointers + at);
    }
}

#define REFUSE \
    do { \
        answer = Py_NewRef(Py_NotImplemented); \
        goto done; \
    } while (0)

/* The call itself on the leaves of the arguments; `targets` are those of `out`, NULL for new arrays. NotImplemented where
   something does not fit. It is there twice, so that calls without complex arrays pay nothing for them. */
static inline ALWAYS PyObject *run(Entry *self, PyObject *const *args, PyObject *out, PyObject *const *targets,
                                   int is_complex) {
    int held = (int)PyTuple_GET_SIZE(self->held), next = 0;
    Number numbers[MOST_ARRAYS];
    void *pointers[MOST_ARRAYS + MOST_DIMS + 3];
    PyObject *results[MOST_ARRAYS], *copies[MOST_ARRAYS];
    PyObject *answer = NULL;
    int made = 0, copied = 0, opens = 0;
    int64_t fault[2] = {0, 0};
    int opened[MOST_ARRAYS];
    Arena parts = {NULL, 0};
    char *room = NULL;
    int first_held = self->inputs - held;
    for (int k = 0; k < self->inputs; ++k) {
        for (; next < self->fixed && self->fixed_at[next] == k + next; ++next)
            if (!args[k + next] || !same(args[k + next], PyTuple_GET_ITEM(self->fixed_value, next))) REFUSE;
        Array *a = &self->arrays[k];
        PyObject *x = k < first_held ? args[k + next] : PyTuple_GET_ITEM(self->held, k - first_held);
        if (is_complex && k + 1 < first_held && self->given_form != Py_None && !args[k + next + 1]) {
            if (!(x = complex_whole(x, a))) REFUSE;
            copies[copied++] = x;
            opened[opens++] = k;
            pointers[k++] = x; /* until it is opened */
        } else if (a->number != ONLY_NUMBER && fits(x, a, 0)) pointers[k] = PyArray_DATA((PyArrayObject *)x);
        else if (a->number && number(x, a, &numbers[k])) pointers[k] = &numbers[k];
        else if (a->number != ONLY_NUMBER && (x = laid_out(x, a))) {
            copies[copied++] = x;
            pointers[k] = PyArray_DATA((PyArrayObject *)x);
        } else REFUSE;
    }
    for (; next < self->fixed; ++next)
        if (!args[self->fixed_at[next]] || !same(args[self->fixed_at[next]], PyTuple_GET_ITEM(self->fixed_value, next)))
            REFUSE;
    if (is_complex && (targets || !(room = open_all(self, pointers, opened, opens, &parts)))) REFUSE;
    for (int k = 0; k < self->outputs; ++k) {
        int at = self->inputs + k;
        Array *a = &self->arrays[at];
        PyObject *target;
        if (targets) {
            target = targets[k];
            if (!fits(target, a, NPY_ARRAY_WRITEABLE)) REFUSE;
            char *data = PyArray_DATA((PyArrayObject *)target);
            for (int j = 0; j < at; ++j)
                if (overlap(pointers[j], self->arrays[j].bytes, data, a->bytes)
                    && (j != a->taken - 1 || pointers[j] != data))
                    REFUSE;
        } else {
            int joined = is_complex && self->joined[k];
            target = joined ? new_result(a->axes, a->shape, complex_type(a->type), 2 * a->bytes)
                            : new_result(a->axes, a->shape, a->type, a->bytes);
            if (!target) { /* the long way says what there is no memory for */
                PyErr_Clear();
                REFUSE;
            }
            results[made++] = target;
            if (joined) {
                room = two_parts(a, pointers + at, room);
                ++k;
                continue;
            }
        }
        pointers[at] = PyArray_DATA((PyArrayObject *)target);
    }
    self->used = 1;
    if (self->left > 0) --self->left;
    int code = call_now(self, pointers, fault);
    if (code) {
        if (code == INTERRUPTED) PyErr_SetNone(PyExc_KeyboardInterrupt);
        else if (code == RAISED) ; /* an error is set */
        else if (code < 0) answer = Py_NewRef(Py_NotImplemented); /* no memory: the long way says for what */
        else answer = PyObject_CallFunction(self->failed, "iLL", code, (long long)fault[0], (long long)fault[1]);
        goto done; /* `failed` raises */
    }
    if (targets) {
        answer = Py_NewRef(out);
        goto done;
    }
    if (is_complex) join_all(self, pointers, results);
    next = 0;
    answer = tree_of(self->result_form, results, &next);
done:
    if (is_complex && parts.start) give_back(parts);
    for (int k = 0; k < made; ++k) Py_DECREF(results[k]);
    for (int k = 0; k < copied; ++k) Py_DECREF(copies[k]);
    return answer;
}

static PyObject *run_either(Entry *self, PyObject *const *args, PyObject *out, PyObject *const *targets) {
    if (self->opens || self->joins) return run(self, args, out, targets, 1);
    return run(self, args, out, targets, 0);
}

/* The call with arguments that are trees, or with results that are to go into `out`. */
APART static PyObject *run_trees(Entry *self, PyObject *const *args, PyObject *out) {
    PyObject *flat[MOST_LEAVES], *targets[MOST_ARRAYS], *answer = NULL;
    Py_ssize_t count = 0, target_count = 0;
    int fit = 1, trees = self->given_form != Py_None;
    for (Py_ssize_t k = 0; trees && fit && k < self->arguments; ++k)
        fit = leaves(args[k], PyTuple_GET_ITEM(self->given_form, k), flat, &count, MOST_LEAVES);
    if (fit && out) fit = leaves(out, self->result_form, targets, &target_count, MOST_ARRAYS);
    if (fit) answer = run_either(self, trees ? flat : args, out, out ? targets : NULL);
    release(flat, count);
    release(targets, target_count);
    if (!fit) Py_RETURN_NOTIMPLEMENTED;
    return answer;
}

static PyObject *entry_run(Entry *self, PyObject *const *args, Py_ssize_t given, PyObject *out) {
    if (given != self->arguments || !self->left) Py_RETURN_NOTIMPLEMENTED;
    if (self->given_form != Py_None || (out && self->result_form != plain)) return run_trees(self, args, out);
    return run_either(self, args, out, out ? &out : NULL);
}

static PyObject *entry_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names) {
    Py_ssize_t given = PyVectorcall_NARGS(nargsf);
    PyObject *out = NULL;
    if (names && PyTuple_GET_SIZE(names)) {
        if (PyTuple_GET_SIZE(names) != 1 || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "out"))
            Py_RETURN_NOTIMPLEMENTED;
        out = args[given] == Py_None ? NULL : args[given];
    }
    return entry_run((Entry *)object, args, given, out);
}

static int entry_traverse(PyObject *object, visitproc visit, void *arg) {
    Entry *self = (Entry *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->given_form);
    Py_VISIT(self->result_form);
    Py_VISIT(self->defaults);
    Py_VISIT(self->fixed_value);
    Py_VISIT(self->failed);
    Py_VISIT(self->held);
    Py_VISIT(self->owner);
    return 0;
}

static int entry_clear(PyObject *object) {
    Entry *self = (Entry *)object;
    self->left = 0; /* nothing calls it any more */
    Py_CLEAR(self->given_form);
    Py_CLEAR(self->result_form);
    Py_CLEAR(self->names);
    Py_CLEAR(self->defaults);
    Py_CLEAR(self->fixed_value);
    Py_CLEAR(self->failed);
    Py_CLEAR(self->held);
    Py_CLEAR(self->owner);
    return 0;
}

static void entry_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    entry_clear(object);
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

static PyMemberDef entry_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Entry, vectorcall), READONLY, NULL},
    {"left", T_LONGLONG, offsetof(Entry, left), 0, NULL},
    {"used", T_BOOL, offsetof(Entry, used), 0, NULL},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot entry_slots[] = {{Py_tp_dealloc, entry_dealloc},
                                    {Py_tp_traverse, entry_traverse},
                                    {Py_tp_clear, entry_clear},
                                    {Py_tp_call, PyVectorcall_Call},
                                    {Py_tp_members, entry_members},
                                    {0, NULL}};

static PyType_Spec entry_spec = {"pullback.runtime.call.Entry", sizeof(Entry), sizeof(Array),
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC, entry_slots};

static PyObject *entry_type;

static PyObject *word_slowly, *word_entries;
static Py_ssize_t entries_at; /* where an instance of a quick class has its list of entries */
static PyObject *threads;     /* reads a context variable: the number that the block around a call asks for */
static PyObject *tracing;     /* a dictionary whose keys are the threads that trace a function */

/* Whether this thread traces a function, so that a call belongs to its program. */
static int is_tracing(void) {
    if (!tracing || !PyDict_Size(tracing)) return 0;
    PyObject *own = PyLong_FromUnsignedLong(PyThread_get_thread_ident());
    int found = own ? PyDict_Contains(tracing, own) : -1;
    Py_XDECREF(own);
    return found;
}

static long long asked_threads(void) {
    PyObject *value = threads ? read_now(threads) : NULL;
    if (!value) return -1;
    long long count = value == Py_None ? 0 : PyLong_AsLongLong(value);
    Py_DECREF(value);
    return count;
}

/* The arguments in the order of the parameters, those that are not given by their defaults; 0 where some are missing,
   given twice, or of no parameter. */
APART static int in_order(Entry *self, PyObject *const *args, Py_ssize_t given, PyObject *names, Py_ssize_t named,
                          PyObject **bound) {
    Py_ssize_t count = PyTuple_GET_SIZE(self->names), used = 0;
    if (given + named > count || count > MOST_ARGUMENTS) return 0;
    for (Py_ssize_t k = 0; k < count; ++k) {
        PyObject *own = PyTuple_GET_ITEM(self->names, k);
        bound[k] = k < given ? args[k] : NULL;
        for (Py_ssize_t j = 0; j < named && !bound[k]; ++j) {
            Py_ssize_t at = (used + j) % named; /* most names come in order */
            PyObject *name = PyTuple_GET_ITEM(names, at);
            if (name == own || !PyUnicode_Compare(name, own)) bound[k] = args[given + at], ++used;
        }
        if (!bound[k] && !(bound[k] = PyDict_GetItemWithError(self->defaults, own))) return PyErr_Clear(), 0;
    }
    return used == named;
}

/* Puts an entry first that is at a later place. */
static void to_front(PyObject *entries, Py_ssize_t k, PyObject *entry) {
    LOCK(order_lock);
    if (k < PyList_GET_SIZE(entries) && PyList_GET_ITEM(entries, k) == entry) { /* the call may have changed the list */
        Py_INCREF(entry);
        for (; k > 0; --k) PyList_SetItem(entries, k, list_item(entries, k - 1));
        PyList_SetItem(entries, 0, entry);
    }
    UNLOCK(order_lock);
}

/* A call of an instance of a quick class: the first entry that the arguments fit, else `_call_slowly`. */
static PyObject *quick_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names) {
    Py_ssize_t given = PyVectorcall_NARGS(nargsf), named = names ? PyTuple_GET_SIZE(names) : 0;
    int traced = is_tracing();
    if (traced < 0) return NULL;
    PyObject *entries = traced ? NULL : entries_of(self); /* a call may replace them */
    if (entries && PyList_CheckExact(entries)) {
        Py_ssize_t own = named; /* out= comes last, or the long way is taken */
        PyObject *out = NULL, *bound[MOST_ARGUMENTS];
        if (named && !PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, named - 1), "out")) {
            out = args[given + --own];
            if (out == Py_None) out = NULL;
        }
        long long asked = asked_threads();
        if (asked < 0) {
            Py_DECREF(entries);
            return NULL;
        }
        for (Py_ssize_t k = 0; k < PyList_GET_SIZE(entries); ++k) {
            PyObject *item = list_item(entries, k);
            if (!item) break; /* another thread has shortened the list */
            Entry *entry = (Entry *)item;
            int ours = (PyObject *)Py_TYPE(item) == entry_type, whole = 0, fit = 1;
            if (ours) {
                fit = entry->count == (asked ? asked : entry->usual) && given <= entry->positional;
                whole = !own && given == entry->arguments;
                if (fit && !whole) fit = in_order(entry, args, given, names, own, bound);
            }
            if (!fit) {
                Py_DECREF(item);
                continue;
            }
            PyObject *answer = ours ? entry_run(entry, whole ? args : bound, entry->arguments, out)
                                    : PyObject_Vectorcall(item, args, given, names);
            if (answer != Py_NotImplemented && k) to_front(entries, k, item);
            Py_DECREF(item);
            if (answer != Py_NotImplemented) {
                Py_DECREF(entries);
                return answer;
            }
            Py_DECREF(answer);
        }
    }
    Py_XDECREF(entries);
    PyErr_Clear(); /* of entries that are not there */
    PyObject *slowly = PyObject_GetAttr(self, word_slowly);
    if (!slowly) return NULL;
    PyObject *answer = PyObject_Vectorcall(slowly, args, given, names);
    Py_DECREF(slowly);
    return answer;
}

/* How large the instances of a class are, -1 with an error. */
static Py_ssize_t instance_bytes(PyObject *type) {
    PyObject *found = PyObject_GetAttrString(type, "__basicsize__");
    Py_ssize_t size = found ? PyLong_AsSsize_t(found) : -1;
    Py_XDECREF(found);
    return size;
}

/* Where instances of a class have the slot `_entries`, found by looking for what is put there; 0 where they have none. */
static Py_ssize_t find_entries(PyObject *base, Py_ssize_t size) {
    Py_ssize_t at = 0;
    PyObject *mark = PyTuple_Pack(1, base);
    PyObject *one = PyObject_CallMethod((PyObject *)&PyBaseObject_Type, "__new__", "O", base);
    if (mark && one && !PyObject_SetAttrString(one, "_entries", mark))
        for (at = size - (Py_ssize_t)sizeof mark; at > 0 && *(PyObject **)((char *)one + at) != mark;) at -= sizeof mark;
    Py_XDECREF(mark);
    Py_XDECREF(one);
    return at;
}

#define QUICK_AT "_quick_at" /* where instances of a quick class have the address of `quick_call` */

/* quick_class(base): a class with room for the address of `quick_call` behind what instances of `base` have; base has
   the slot `_entries` and the method `_call_slowly`. */
static PyObject *quick_class(PyObject *module, PyObject *base) {
    (void)module;
    if (!PyType_Check(base)) return PyErr_Format(PyExc_TypeError, "quick_class takes a class");
    Py_ssize_t size = instance_bytes(base);
    if (size < 0) return NULL;
    Py_ssize_t at = find_entries(base, size);
    if (PyErr_Occurred()) return NULL;
    if (!at) return PyErr_Format(PyExc_TypeError, "_entries is not a slot");
    entries_at = at;
    PyMemberDef members[] = {{"__vectorcalloffset__", T_PYSSIZET, size, READONLY, NULL}, {NULL, 0, 0, 0, NULL}};
    PyType_Slot slots[] = {{Py_tp_members, members}, {0, NULL}};
    PyObject *home = PyObject_GetAttrString(base, "__module__"), *own = PyObject_GetAttrString(base, "__name__");
    PyObject *name = home && own ? PyUnicode_FromFormat("%U.%U", home, own) : NULL;
    Py_XDECREF(home);
    Py_XDECREF(own);
    if (!name) return NULL;
    PyType_Spec spec = {PyUnicode_AsUTF8AndSize(name, NULL), (int)(size + (Py_ssize_t)sizeof(vectorcallfunc)), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL, slots};
    PyObject *bases = PyTuple_Pack(1, base), *offset = PyLong_FromSsize_t(size);
    PyObject *made = bases && offset ? PyType_FromSpecWithBases(&spec, bases) : NULL;
    if (made && PyObject_SetAttrString(made, QUICK_AT, offset)) Py_CLEAR(made);
    Py_XDECREF(offset);
    Py_XDECREF(bases);
    Py_DECREF(name);
    return made;
}

/* quicken(function, threads, tracing): let calls of an instance of a quick class begin with its entries, but in the
   threads that trace; others stay as they are. */
static PyObject *quicken(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *self, *variable, *tracers;
    if (!PyArg_ParseTuple(args, "OOO!", &self, &variable, &PyDict_Type, &tracers)) return NULL;
    PyObject *before = threads, *reader = reader_of(variable);
    if (!reader) return NULL;
    threads = reader;
    Py_XDECREF(before);
    before = tracing, tracing = Py_NewRef(tracers);
    Py_XDECREF(before);
    PyObject *type = (PyObject *)Py_TYPE(self);
    if (PyType_GetFlags((PyTypeObject *)type) & Py_TPFLAGS_HAVE_VECTORCALL) {
        PyObject *offset = PyObject_GetAttrString(type, QUICK_AT);
        Py_ssize_t at = offset ? PyLong_AsSsize_t(offset) : -1;
        Py_XDECREF(offset);
        PyErr_Clear(); /* of another class that has vectorcall */
        if (at > 0 && at + (Py_ssize_t)sizeof(vectorcallfunc) == instance_bytes(type))
            *(vectorcallfunc *)((char *)self + at) = quick_call;
    }
    Py_RETURN_NONE;
}

/* (shape, NumPy's number of the element type, its size); of an input also whether it may be a number, of an output 0 and
   `taken` */
static int read_array(PyObject *item, Array *a) {
    PyObject *shape;
    Py_ssize_t size;
    a->number = a->taken = 0;
    if (!PyArg_ParseTuple(item, "O!in|ii", &PyTuple_Type, &shape, &a->type, &size, &a->number, &a->taken)) return 0;
    a->axes = (int)PyTuple_GET_SIZE(shape);
    a->bytes = (size_t)size;
    for (int k = 0; k < a->axes; ++k) {
        a->shape[k] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, k));
        a->bytes *= (size_t)a->shape[k];
    }
    if (a->axes) a->number = 0;
    return !PyErr_Occurred();
}

/* Whether it is the form of a tree; adds up the arrays at its leaves. */
static int is_form(PyObject *form, Py_ssize_t *count) {
    if (form == Py_None) return 1;
    if (PyLong_Check(form)) return *count += PyLong_AsLong(form) & COMPLEX ? 2 : 1, 1;
    if (PyList_CheckExact(form)) {
        if (PyList_GET_SIZE(form) != 4 || !PyType_Check(PyList_GET_ITEM(form, 0))) return 0;
        PyObject *keys = PyList_GET_ITEM(form, 1), *forms = PyList_GET_ITEM(form, 2);
        if (!PyTuple_CheckExact(keys) || !PyTuple_CheckExact(forms)) return 0;
        if (PyTuple_GET_SIZE(keys) != PyTuple_GET_SIZE(forms)) return 0;
    } else if (!PyTuple_CheckExact(form)) return 0;
    PyObject *children = children_of(form);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(children); ++k)
        if (!is_form(PyTuple_GET_ITEM(children, k), count)) return 0;
    return 1;
}

/* The number of complex arrays in a form; of results also which outputs are their parts. */
static int complex_arrays(PyObject *form, Entry *self, int results, int *at) {
    int found = 0;
    if (PyLong_Check(form)) {
        found = (PyLong_AsLong(form) & COMPLEX) != 0;
        if (results && found) {
            self->joined[*at] = 1;
            self->joined_bytes += 2 * ROOM(self->arrays[self->inputs + *at].bytes);
        }
        *at += 1 + found;
    }
    PyObject *children = children_of(form);
    for (Py_ssize_t k = 0; children && k < PyTuple_GET_SIZE(children); ++k)
        found += complex_arrays(PyTuple_GET_ITEM(children, k), self, results, at);
    return found;
}

/* entry(address, owner, inputs, outputs, result_form, arena_bytes, checked, brief, failed, fixed, held, dims, threaded,
   pool, count, usual, names, defaults, positional, given_form, left); None where there is too much. `owner` keeps the
   code at the address loaded, `fixed` has pairs (position among the leaves of the arguments, value) in order, `held` the
   arrays of the last inputs, `dims` the integers that the function takes after its arrays; `count` is the number of
   threads that quick calls must ask for, `usual` that which they do without a block around them; without a `given_form`
   each argument is a leaf. */
static PyObject *new_entry(PyObject *module, PyObject *args) {
    (void)module;
    unsigned long long address, pool;
    long long count, usual, left;
    PyObject *owner, *inputs, *outputs, *failed, *fixed, *held, *dims, *names, *defaults, *given_form, *result_form;
    Py_ssize_t arena_bytes, positional, results = 0, leaf_count = 0;
    int checked, brief, threaded;
    if (!PyArg_ParseTuple(args, "KOO!O!OnppOO!O!O!pKLLO!O!nOL", &address, &owner, &PyTuple_Type, &inputs, &PyTuple_Type,
                          &outputs, &result_form, &arena_bytes, &checked, &brief, &failed, &PyTuple_Type, &fixed,
                          &PyTuple_Type, &held, &PyTuple_Type, &dims, &threaded, &pool, &count, &usual, &PyTuple_Type,
                          &names, &PyDict_Type, &defaults, &positional, &given_form, &left))
        return NULL;
    Py_ssize_t m = PyTuple_GET_SIZE(inputs), n = PyTuple_GET_SIZE(outputs);
    if (!is_form(result_form, &results) || results != n || !is_form(given_form, &leaf_count))
        return PyErr_Format(PyExc_TypeError, "no form of arguments or of %zd results", n);
    Py_ssize_t own = m + PyTuple_GET_SIZE(fixed) - PyTuple_GET_SIZE(held); /* leaves of the arguments */
    if (given_form != Py_None && (!PyTuple_CheckExact(given_form) || leaf_count != own))
        return PyErr_Format(PyExc_TypeError, "no form of arguments with %zd leaves", own);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names); ++k)
        if (!PyUnicode_Check(PyTuple_GET_ITEM(names, k))) return PyErr_Format(PyExc_TypeError, "names are strings");
    Py_ssize_t d = PyTuple_GET_SIZE(dims);
    if (d > MOST_DIMS || (d && sizeof(void *) < sizeof(int64_t))) Py_RETURN_NONE;
    if (m + n > MOST_ARRAYS
        || PyTuple_GET_SIZE(fixed) > MOST_FIXED || PyTuple_GET_SIZE(held) > m)
        Py_RETURN_NONE;
    for (Py_ssize_t k = 0; k < m + n; ++k) {
        PyObject *item = k < m ? PyTuple_GET_ITEM(inputs, k) : PyTuple_GET_ITEM(outputs, k - m);
        if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) < 3 || !PyTuple_Check(PyTuple_GET_ITEM(item, 0))
            || PyTuple_GET_SIZE(PyTuple_GET_ITEM(item, 0)) > MOST_AXES)
            Py_RETURN_NONE;
    }
    PyTypeObject *type = (PyTypeObject *)entry_type;
    Entry *self = (Entry *)PyType_GenericAlloc(type, m + n);
    if (!self) return NULL;
    self->vectorcall = entry_call;
    self->address = (void *)(uintptr_t)address;
    self->inputs = (int)m;
    self->outputs = (int)n;
    self->names = Py_NewRef(names);
    self->defaults = Py_NewRef(defaults);
    self->positional = positional;
    self->arguments = given_form == Py_None ? own : PyTuple_GET_SIZE(given_form);
    self->given_form = Py_NewRef(given_form);
    self->result_form = Py_NewRef(result_form);
    self->arena_bytes = (size_t)arena_bytes;
    self->checked = checked;
    self->brief = brief;
    self->threaded = threaded;
    self->pool = (void *)(uintptr_t)pool;
    self->count = count;
    self->usual = usual;
    self->left = left;
    self->failed = Py_NewRef(failed);
    self->held = Py_NewRef(held);
    self->owner = Py_NewRef(owner);
    self->dims = (int)d;
    for (Py_ssize_t k = 0; k < d; ++k) self->dim[k] = (void *)(intptr_t)PyLong_AsLongLong(PyTuple_GET_ITEM(dims, k));
    self->fixed = (int)PyTuple_GET_SIZE(fixed);
    self->fixed_value = PyTuple_New(self->fixed);
    for (int k = 0; k < self->fixed; ++k) {
        PyObject *value = NULL;
        if (!self->fixed_value || !PyArg_ParseTuple(PyTuple_GET_ITEM(fixed, k), "nO", &self->fixed_at[k], &value)
            || self->fixed_at[k] < 0 || self->fixed_at[k] >= own) {
            Py_DECREF(self);
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "no leaf %zd", self->fixed_at[k]);
        }
        PyTuple_SET_ITEM(self->fixed_value, k, Py_NewRef(value));
    }
    for (Py_ssize_t k = 0; k < m + n; ++k) {
        PyObject *item = k < m ? PyTuple_GET_ITEM(inputs, k) : PyTuple_GET_ITEM(outputs, k - m);
        if (!read_array(item, &self->arrays[k])) {
            Py_DECREF(self);
            return NULL;
        }
    }
    int first = 0;
    self->joins = complex_arrays(self->result_form, self, 1, &first);
    self->opens = complex_arrays(self->given_form, self, 0, &first);
    return (PyObject *)self;
}

/* invoke(address, *arguments) -> what the function there returns for these addresses and integers. */
static PyObject *invoke(PyObject *module, PyObject *const *args, Py_ssize_t given) {
    (void)module;
    void *pointers[MOST_POINTERS];
    if (given < 1 || given > MOST_POINTERS + 1) return PyErr_Format(PyExc_TypeError, "invoke: %zd arguments", given);
    for (Py_ssize_t k = 1; k < given; ++k) pointers[k - 1] = (void *)(uintptr_t)PyLong_AsUnsignedLongLongMask(args[k]);
    void *address = (void *)(uintptr_t)PyLong_AsUnsignedLongLongMask(args[0]);
    if (PyErr_Occurred()) return NULL;
    int code = call_released(address, pointers, (int)given - 1);
    return code == INTERRUPTED ? PyErr_SetNone(PyExc_KeyboardInterrupt), NULL : PyLong_FromLong(code);
}

/* main_thread(ident): which thread Python gives signals to. */
static PyObject *main_thread(PyObject *module, PyObject *ident) {
    (void)module;
    unsigned long found = PyLong_AsUnsignedLong(ident);
    if (PyErr_Occurred()) return NULL;
    guard.thread = (pthread_t)found;
    looked = 0;
    Py_RETURN_NONE;
}

/* guard() -> the address of what the pool of threads has to know of Ctrl-C. */
static PyObject *guard_now(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    return PyLong_FromVoidPtr(&guard);
}

/* lend(bytes) -> (address, bytes), for give_back(address, bytes). */
static PyObject *lend_now(PyObject *module, PyObject *bytes) {
    (void)module;
    size_t wanted = PyLong_AsSize_t(bytes);
    if (wanted == (size_t)-1 && PyErr_Occurred()) return NULL;
    Arena a = lend(wanted);
    return a.start ? Py_BuildValue("Kn", (unsigned long long)(uintptr_t)a.start, (Py_ssize_t)a.bytes) : PyErr_NoMemory();
}

static PyObject *give_back_now(PyObject *module, PyObject *args) {
    (void)module;
    unsigned long long start;
    Py_ssize_t bytes;
    if (!PyArg_ParseTuple(args, "Kn", &start, &bytes)) return NULL;
    give_back((Arena){(void *)(uintptr_t)start, (size_t)bytes});
    Py_RETURN_NONE;
}

/* keep_idle(bytes): how much memory is kept while nobody uses it, beside the arena that was used last. */
static PyObject *keep_idle(PyObject *module, PyObject *bytes) {
    (void)module;
    size_t most = PyLong_AsSize_t(bytes);
    if (most == (size_t)-1 && PyErr_Occurred()) return NULL;
    most_idle_bytes = most;
    return PyLong_FromSize_t(idle_bytes);
}

/* empty(shape, type, size) -> a new array of elements of this NumPy number and size, not initialized. */
static PyObject *empty(PyObject *module, PyObject *array) {
    (void)module;
    Array a;
    if (!PyTuple_Check(array) || PyTuple_GET_SIZE(array) != 3 || !PyTuple_Check(PyTuple_GET_ITEM(array, 0))
        || PyTuple_GET_SIZE(PyTuple_GET_ITEM(array, 0)) > MOST_AXES)
        return PyErr_Format(PyExc_TypeError, "empty takes a shape, a type and a size");
    return read_array(array, &a) ? new_result(a.axes, a.shape, a.type, a.bytes) : NULL;
}

static PyMethodDef methods[] = {{"empty", empty, METH_VARARGS, "An array."},
                                {"entry", new_entry, METH_VARARGS, "An Entry."},
                                {"invoke", (PyCFunction)(void (*)(void))invoke, METH_FASTCALL, "A call that Ctrl-C ends."},
                                {"main_thread", main_thread, METH_O, "The thread that gets signals."},
                                {"guard", guard_now, METH_NOARGS, "What Ctrl-C and the pool share."},
                                {"lend", lend_now, METH_O, "An arena."},
                                {"give_back", give_back_now, METH_VARARGS, "Take an arena back."},
                                {"keep_idle", keep_idle, METH_O, "How many idle bytes are kept."},
                                {"quick_class", quick_class, METH_O, "A class whose instances can be quickened."},
                                {"quicken", quicken, METH_VARARGS, "Let calls try entries first."},
                                {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_pullback_call", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__pullback_call(void) {
    import_array();
    word_slowly = PyUnicode_InternFromString("_call_slowly");
    word_entries = PyUnicode_InternFromString("_entries");
    plain = PyLong_FromLong(0);
    result_handler = PyCapsule_New(&result_memory, "mem_handler", NULL);
    if (!word_slowly || !word_entries || !plain || !result_handler) return NULL;
    entry_type = PyType_FromSpec(&entry_spec);
    PyObject *made = entry_type ? PyModule_Create(&module) : NULL;
    if (made && PyModule_AddIntConstant(made, "MOST_POINTERS", MOST_POINTERS)) Py_CLEAR(made);
#ifdef Py_GIL_DISABLED
    if (made && PyUnstable_Module_SetGIL(made, Py_MOD_GIL_NOT_USED)) Py_CLEAR(made);
#endif
    return made;
}
