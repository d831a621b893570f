/* Calls of lazy arrays whose structure was seen before, without Python between an operator and the kernel.

   `force` walks the waiting nodes below the wanted arrays and writes their structure as a key of integers, that which
   `lazy.running` has. It looks up the compiled entry that Python has noted for it (`learn`), calls the entry with the
   leaves' values and stores the results. Whatever it does not know it leaves to Python, and then nothing has changed.

   Which nodes are stored? Those that more refers to than the operands of the nodes here. Nothing depends on that number
   but work: all nodes keep their operands until the kernel has run, and those that are not stored keep them afterwards,
   so a node that is held all the same is still there, and is computed again. For the same reason an error, or another
   thread that comes in while the kernel runs, finds the graph as it was.

   `method` makes a method of the class: an operator that builds a node if it has built one for such operands before, or
   `numpy`, which gives the value. Where its small table does not help it calls the method in Python that it stands for.

   The interpreter lock guards what is static here, so this file is not built for interpreters without one. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#define NPY_NO_DEPRECATED_API NPY_1_20_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#include <numpy/arrayobject.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NODES 128
#define MOST_LEAVES 128
#define MOST_KEY 1024
#define SEEN 1024     /* places of the table of a walk, a power of two, at least twice what it may hold */
#define RECORDS 8192  /* places of the table of structures, a power of two */
#define MOST_KNOWN 4096
#define WAYS 16       /* operand types that a method remembers */
#define NEW_LEAF (-(1 << 30))
#define TRACKED (INT32_MIN) /* before the numbers of tracked leaves; at the end of a key with derivatives */
#define BOTH (INT32_MIN + 1)

/* Where objects have their slots ------------------------------------------------------------------------------------*/

#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

static struct { Py_ssize_t application, operands, type, tracked, serial, value, origin, share; } of;     /* Array */
static struct { Py_ssize_t number, type, device, floating, checked, view; } in;                    /* Application */
static struct { Py_ssize_t leaf, grad, version; } at_weight;                                           /* Weight */
static PyTypeObject *array_type, *application_type, *weight_type;
static PyObject *acquire, *release, *serials; /* of the lock; the counter */
static PyObject *busy, *zero; /* an object with the number of those inside the lock, and 0 */
static Py_ssize_t busy_at;
static PyObject *unsettled, *force_slowly, *watched, *tape_of, *thread_count, *none_at_all;
static unsigned long long found_count;

static int offset_of(PyObject *type, const char *name, Py_ssize_t *offset) {
    PyObject *descriptor = PyObject_GetAttrString(type, name);
    if (!descriptor) return 0;
    int is_slot = Py_IS_TYPE(descriptor, &PyMemberDescr_Type)
                  && ((PyMemberDescrObject *)descriptor)->d_member->type == T_OBJECT_EX;
    if (is_slot) *offset = ((PyMemberDescrObject *)descriptor)->d_member->offset;
    else PyErr_Format(PyExc_TypeError, "%s is not a slot", name);
    Py_DECREF(descriptor);
    return is_slot;
}

/* Structures --------------------------------------------------------------------------------------------------------*/

typedef struct {
    uint64_t hash;
    int length, outputs;
    int alone;       /* for calls on one thread only; with more the nodes are cut apart */
    int light;       /* so little work that two threads may do it twice */
    PyObject *entry; /* compiled code: it takes the leaves and returns a tuple */
    PyObject *piece; /* for a tape, with the numbers of the tracked leaves; or None */
    PyObject *wrt;
    PyObject *places; /* of an entry that gives cotangents, too: the leaves that they are of; or None */
    int32_t key[];
} Record;

static Record *records[RECORDS];
static int record_count;

static uint64_t hash_of(const int32_t *key, int length) {
    uint64_t h = (uint64_t)length;
    for (int k = 0; k < length; ++k) {
        h = (h ^ (uint32_t)key[k]) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    return h;
}

/* The place of a structure in the table, or the empty one where it belongs. */
static Record **place_of(const int32_t *key, int length, uint64_t hash) {
    for (uint64_t k = hash;; ++k) {
        Record **place = &records[k % RECORDS];
        Record *r = *place;
        if (!r || (r->hash == hash && r->length == length && !memcmp(r->key, key, sizeof *key * (size_t)length)))
            return place;
    }
}

static void drop(Record *r) {
    Py_XDECREF(r->entry);
    Py_XDECREF(r->piece);
    Py_XDECREF(r->wrt);
    Py_XDECREF(r->places);
    free(r);
}

/* forget(): no structure is known any more. */
static PyObject *forget(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    for (int k = 0; k < RECORDS; ++k) {
        Record *r = records[k];
        records[k] = NULL;
        if (r) --record_count, drop(r);
    }
    Py_RETURN_NONE;
}

/* known() -> how many structures are known. */
static PyObject *known_now(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    return PyLong_FromLong(record_count);
}

/* learn(key, outputs, wrt, entry, piece, places, alone, light): such calls are `entry`'s from now on. `key` is that of
   `lazy.piece`, and `piece` makes their tape, or is None. With `places` it is for `both`. */
static PyObject *learn(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *key, *wrt, *entry, *piece, *places;
    int outputs, alone, light;
    if (!PyArg_ParseTuple(args, "O!iO!OOOpp", &PyList_Type, &key, &outputs, &PyTuple_Type, &wrt, &entry, &piece,
                          &places, &alone, &light))
        return NULL;
    Py_ssize_t n = PyList_GET_SIZE(key), more = PyTuple_GET_SIZE(wrt), both = places != Py_None;
    Py_ssize_t length = n + (more ? 1 + more : 0) + both;
    if (length > MOST_KEY) Py_RETURN_NONE;
    Record *r = calloc(1, sizeof *r + sizeof(int32_t) * (size_t)length);
    if (!r) return PyErr_NoMemory();
    for (Py_ssize_t k = 0; k < n; ++k) r->key[k] = (int32_t)PyLong_AsLong(PyList_GET_ITEM(key, k));
    if (more) r->key[n] = TRACKED;
    for (Py_ssize_t k = 0; k < more; ++k) r->key[n + 1 + k] = (int32_t)PyLong_AsLong(PyTuple_GET_ITEM(wrt, k));
    if (both) r->key[length - 1] = BOTH;
    if (PyErr_Occurred()) {
        free(r);
        return NULL;
    }
    r->length = (int)length;
    r->hash = hash_of(r->key, r->length);
    r->outputs = outputs;
    r->alone = alone;
    r->light = light;
    r->entry = Py_NewRef(entry);
    r->piece = Py_NewRef(piece);
    r->wrt = Py_NewRef(wrt);
    r->places = Py_NewRef(places);
    if (record_count >= MOST_KNOWN) Py_XDECREF(forget(NULL, NULL));
    Record **place = place_of(r->key, r->length, r->hash), *before = *place;
    *place = r;
    if (before) drop(before);
    else ++record_count;
    Py_RETURN_NONE;
}

/* The walk ----------------------------------------------------------------------------------------------------------*/

typedef struct {
    PyObject *object, *application, *operands;
    long long serial;
    Py_ssize_t inner; /* how many references the operands of nodes here make up */
    int position;     /* in the order of serial numbers, -1 before that is known */
    char wanted;
} Node;

typedef struct {
    PyObject *object;
    unsigned stamp; /* of the walk that has set it */
    int at;         /* the node's place among the nodes; a leaf's number, as in the key */
} Seen;

static Seen seen[SEEN];
static unsigned stamp;
static Node nodes[MOST_NODES];
static PyObject *leaves[MOST_LEAVES];
static int32_t key[MOST_KEY];
static int node_count, leaf_count, leaves_met, key_length;

static Seen *find(PyObject *x) {
    for (size_t k = ((uintptr_t)x >> 4) * 0x9E3779B97F4A7C15u >> 48;; ++k) {
        Seen *s = &seen[k % SEEN];
        if (s->stamp != stamp || s->object == x) return s;
    }
}

/* Whether C may run an operation: one array as the result, which cannot fail, on the processor. */
static int is_plain(PyObject *application) {
    return Py_IS_TYPE(application, application_type) && SLOT(application, in.type) != Py_None
           && SLOT(application, in.checked) == Py_False
           && PyUnicode_GET_LENGTH(SLOT(application, in.device)) == 0;
}

/* Adds what is met for the first time to the nodes or leaves; NULL where it is nothing for C. */
static Seen *meet(PyObject *x) {
    Seen *s = find(x);
    if (s->stamp == stamp) return s;
    PyObject *value = SLOT(x, of.value);
    if (!value) return NULL;
    if (value != Py_None) {
        if (++leaves_met > MOST_LEAVES) return NULL;
        *s = (Seen){x, stamp, NEW_LEAF};
        return s;
    }
    if (node_count == MOST_NODES) return NULL;
    Node *n = &nodes[node_count];
    *n = (Node){x, SLOT(x, of.application), SLOT(x, of.operands), 0, 0, -1, 0};
    PyObject *serial = SLOT(x, of.serial);
    if (!n->application || !n->operands || !serial || !PyTuple_CheckExact(n->operands) || !is_plain(n->application)
        || SLOT(x, of.origin) != Py_None)
        return NULL;
    n->serial = PyLong_AsLongLong(serial);
    *s = (Seen){x, stamp, node_count++};
    return s;
}

/* Finds all waiting nodes below those met so far. */
static int collect(void) {
    for (int k = 0; k < node_count; ++k) { /* the list grows meanwhile */
        PyObject *operands = nodes[k].operands;
        int ours = Py_REFCNT(operands) == 1; /* who else has the tuple holds what is in it */
        for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(operands); ++j) {
            PyObject *x = PyTuple_GET_ITEM(operands, j);
            if (!PyObject_TypeCheck(x, array_type)) return 0;
            Seen *s = meet(x);
            if (!s) return 0;
            if (s->at >= 0) nodes[s->at].inner += ours;
        }
    }
    return 1;
}

/* Sorts the numbers of the nodes by their serial numbers. Nodes are mostly met in the opposite order. */
static void sort(int *order) {
    for (int k = 0; k < node_count; ++k) {
        int own = node_count - 1 - k, j = k;
        for (; j > 0 && nodes[order[j - 1]].serial > nodes[own].serial; --j) order[j] = order[j - 1];
        order[j] = own;
    }
}

static int put(long long x) {
    if (key_length == MOST_KEY || x < INT32_MIN || x > INT32_MAX) return 0;
    key[key_length++] = (int32_t)x;
    return 1;
}

/* Writes the operations and what they read. */
static int write_steps(const int *order) {
    for (int k = 0; k < node_count; ++k) {
        Node *n = &nodes[order[k]];
        if (!put(PyLong_AsLongLong(SLOT(n->application, in.number)))) return 0;
        for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(n->operands); ++j) {
            Seen *s = find(PyTuple_GET_ITEM(n->operands, j));
            if (s->at == NEW_LEAF) {
                leaves[leaf_count++] = s->object;
                s->at = -leaf_count;
            }
            int position = s->at < 0 ? s->at : nodes[s->at].position;
            if (s->at >= 0 && position < 0) return 0; /* it was built later */
            if (!put(position)) return 0;
        }
        n->position = k;
    }
    return put(-1 - leaf_count);
}

/* Writes the outputs, the last first, and the numbers of the tracked leaves; collects the outputs. */
static int write_rest(const int *order, PyObject **outputs, int *output_count, int *views) {
    for (int k = node_count - 1; k >= 0; --k) {
        Node *n = &nodes[order[k]];
        if (!n->wanted && Py_REFCNT(n->object) <= n->inner) continue;
        if (!put(k)) return 0;
        *views |= SLOT(n->application, in.view) != Py_None;
        outputs[(*output_count)++] = n->object;
    }
    int tracked = 0;
    for (int k = 0; k < leaf_count; ++k) {
        if (SLOT(leaves[k], of.tracked) != Py_True) continue;
        if (!tracked++ && !put(TRACKED)) return 0;
        if (!put(k)) return 0;
    }
    return 1;
}

/* The call ----------------------------------------------------------------------------------------------------------*/

typedef struct {
    int leaf_count, output_count;
    PyObject *leaves[MOST_LEAVES], *values[MOST_LEAVES], *outputs[MOST_NODES]; /* all held */
    PyObject *entry, *piece, *wrt, *places;
} Call;

static void end(Call *c) {
    for (int k = 0; k < c->leaf_count; ++k) Py_DECREF(c->leaves[k]), Py_DECREF(c->values[k]);
    for (int k = 0; k < c->output_count; ++k) Py_DECREF(c->outputs[k]);
    Py_DECREF(c->entry);
    Py_DECREF(c->piece);
    Py_DECREF(c->wrt);
    Py_DECREF(c->places);
}

static void *take(PyObject **to, PyObject *const *from, int count) {
    for (int k = 0; k < count; ++k) to[k] = Py_NewRef(from[k]);
    return to;
}

#define LOCKED 2 /* the lock has to be taken for this */

/* Whether no thread is inside the lock. */
static int is_free(void) { return SLOT(busy, busy_at) == zero; }

/* Finds the code for the wanted arrays; 0 where Python is to run, -1 with an error. */
static int prepare(PyObject *const *wanted, Py_ssize_t count, Call *c, int locked, int both) {
    PyObject *outputs[MOST_NODES];
    int order[MOST_NODES], output_count = 0, views = 0;
    if (!++stamp) memset(seen, 0, sizeof seen), ++stamp;
    node_count = leaf_count = leaves_met = key_length = 0;
    for (Py_ssize_t k = 0; k < count; ++k) {
        if (!PyObject_TypeCheck(wanted[k], array_type)) return 0;
        Seen *s = meet(wanted[k]);
        if (!s) return 0;
        if (s->at >= 0) nodes[s->at].wanted = 1;
    }
    if (!node_count || !collect()) return 0;
    sort(order);
    if (!write_steps(order) || !write_rest(order, outputs, &output_count, &views)) return 0;
    if (both && !put(BOTH)) return 0;
    Record *r = *place_of(key, key_length, hash_of(key, key_length));
    if (!r || r->outputs != output_count) return 0;
    if (!locked && !r->light) return LOCKED;
    int alone = r->alone;
    for (int k = 0; k < leaf_count; ++k) c->values[k] = Py_NewRef(SLOT(leaves[k], of.value));
    take(c->leaves, leaves, c->leaf_count = leaf_count);
    take(c->outputs, outputs, c->output_count = output_count);
    c->entry = Py_NewRef(r->entry);
    c->piece = Py_NewRef(r->piece);
    c->places = Py_NewRef(r->places);
    c->wrt = Py_NewRef(r->wrt); /* from here on nothing above is read: Python may run */
    int fit = 1;
    if (alone) {
        PyObject *threads = PyObject_CallNoArgs(thread_count);
        fit = threads ? PyLong_AsLong(threads) == 1 : -1;
        Py_XDECREF(threads);
    }
    for (int k = 0; views && fit == 1 && k < output_count; ++k) {
        PyObject *application = SLOT(c->outputs[k], of.application);
        if (application == Py_None || SLOT(application, in.view) == Py_None) continue;
        PyObject *answer = PyObject_CallOneArg(watched, c->outputs[k]);
        if (!answer) fit = -1;
        Py_XDECREF(answer);
    }
    if (fit != 1) end(c);
    return fit;
}

static PyObject *tuple_of(PyObject *const *items, Py_ssize_t count) {
    PyObject *made = PyTuple_New(count);
    for (Py_ssize_t k = 0; made && k < count; ++k) PyTuple_SET_ITEM(made, k, Py_NewRef(items[k]));
    return made;
}

/* The origins of the outputs: (tape, number) of those that are tracked, otherwise None. A tape keeps the residuals; one
   whose backward pass has run computes them again. */
static int find_origins(Call *c, PyObject *results, PyObject **origins) {
    PyObject *leaves = tuple_of(c->leaves, c->leaf_count);
    PyObject *residuals = c->places != Py_None ? Py_NewRef(Py_None)
                          : PyTuple_GetSlice(results, c->output_count, PyTuple_GET_SIZE(results));
    PyObject *tape = leaves && residuals
                         ? PyObject_CallFunctionObjArgs(tape_of, c->piece, c->wrt, leaves, residuals, NULL) : NULL;
    Py_XDECREF(leaves);
    Py_XDECREF(residuals);
    int made = 0;
    for (; tape && made < c->output_count; ++made) {
        int tracked = SLOT(c->outputs[made], of.tracked) == Py_True;
        origins[made] = tracked ? Py_BuildValue("Oi", tape, made) : Py_NewRef(Py_None);
        if (!origins[made]) break;
    }
    int all = tape && made == c->output_count;
    while (!all && made) {
        --made;
        Py_DECREF(origins[made]);
    }
    Py_XDECREF(tape);
    return all;
}

/* Stores the results: the outputs are leaves from now on. Who sees a value finds its tape. */
static int store(Call *c, PyObject *results, int locked) {
    PyObject *origins[MOST_NODES], *gone[3 * MOST_NODES];
    int count = 0, has_tape = c->piece != Py_None;
    if (has_tape && !find_origins(c, results, origins)) return -1;
    if (!locked && !is_free()) {
        for (int k = 0; has_tape && k < c->output_count; ++k) Py_DECREF(origins[k]);
        return 0;
    }
    for (int k = 0; k < c->output_count; ++k) {
        PyObject *x = c->outputs[k], *value = PyTuple_GET_ITEM(results, k);
        PyObject *origin = has_tape ? origins[k] : Py_NewRef(Py_None);
        if (SLOT(x, of.value) != Py_None) { /* computed while the kernel ran */
            gone[count++] = origin;
            continue;
        }
        if (PyArray_CheckExact(value)) PyArray_CLEARFLAGS((PyArrayObject *)value, NPY_ARRAY_WRITEABLE);
        gone[count++] = SLOT(x, of.origin);
        gone[count++] = SLOT(x, of.application);
        gone[count++] = SLOT(x, of.operands);
        SLOT(x, of.origin) = origin;
        SLOT(x, of.value) = Py_NewRef(value);
        SLOT(x, of.application) = Py_NewRef(Py_None);
        SLOT(x, of.operands) = Py_NewRef(none_at_all);
        Py_DECREF(Py_None); /* the value before */
    }
    while (count) { /* nodes end here, and whatever waits for that runs */
        --count;
        Py_XDECREF(gone[count]);
    }
    return 1;
}

/* What `both` returns: the outputs' number, the cotangents, and the leaves that they are of. */
static PyObject *derivatives_of(Call *c, PyObject *results) {
    PyObject *cotangents = PyTuple_GetSlice(results, c->output_count, PyTuple_GET_SIZE(results));
    PyObject *of_leaves = PyTuple_New(PyTuple_GET_SIZE(c->places));
    for (Py_ssize_t k = 0; of_leaves && k < PyTuple_GET_SIZE(c->places); ++k) {
        long at = PyLong_AsLong(PyTuple_GET_ITEM(c->places, k));
        if (at < 0 || at >= c->leaf_count) Py_CLEAR(of_leaves);
        else PyTuple_SET_ITEM(of_leaves, k, Py_NewRef(c->leaves[at]));
    }
    PyObject *made = cotangents && of_leaves ? Py_BuildValue("iOO", c->output_count, of_leaves, cotangents) : NULL;
    Py_XDECREF(cotangents);
    Py_XDECREF(of_leaves);
    if (!made && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "places are no leaves");
    return made;
}

/* The same. Light work is done without the lock while nobody is inside: here the interpreter lock is enough, and if
   someone has come in meanwhile, the results are dropped, and Python waits for the lock. */
static int run(PyObject *const *wanted, Py_ssize_t count, int locked, PyObject **derivatives) {
    Call c;
    if (PyList_GET_SIZE(unsettled)) return 0; /* this thread is in the middle of another computation */
    int fit = prepare(wanted, count, &c, locked, derivatives != NULL);
    if (fit != 1) return fit;
    PyObject *results = PyObject_Vectorcall(c.entry, c.values, (size_t)c.leaf_count, NULL);
    if (!results && PyErr_ExceptionMatches(PyExc_Exception)) { /* Python runs it again, and reports what is wrong */
        PyErr_Clear();
        fit = 0;
    } else if (!results) fit = -1;
    else if (!PyTuple_CheckExact(results) || PyTuple_GET_SIZE(results) < c.output_count) fit = 0;
    else {
        fit = store(&c, results, locked);
        found_count += fit == 1;
    }
    if (derivatives && fit == 1 && !(*derivatives = derivatives_of(&c, results))) fit = -1;
    Py_XDECREF(results);
    end(&c);
    return fit;
}

/* Computes arrays; 0 where Python has to, -1 with an error. */
static int computed(PyObject *const *wanted, Py_ssize_t count) {
    int fit = is_free() ? run(wanted, count, 0, NULL) : LOCKED;
    if (fit != LOCKED) return fit;
    PyObject *answer = PyObject_CallNoArgs(acquire);
    if (!answer) return -1;
    Py_DECREF(answer);
    fit = run(wanted, count, 1, NULL);
    PyObject *type, *error, *trace;
    if (fit < 0) PyErr_Fetch(&type, &error, &trace);
    answer = PyObject_CallNoArgs(release);
    if (fit < 0) PyErr_Restore(type, error, trace);
    if (!answer) return -1;
    Py_DECREF(answer);
    return fit;
}

/* force(arrays): compute arrays; of several, or of none that C knows, Python does. */
static PyObject *force(PyObject *module, PyObject *arrays) {
    (void)module;
    if (PyList_CheckExact(arrays) && PyList_GET_SIZE(arrays) == 1) {
        PyObject *x = Py_NewRef(PyList_GET_ITEM(arrays, 0));
        int fit = computed(&x, 1);
        Py_DECREF(x);
        if (fit < 0) return NULL;
        if (fit) Py_RETURN_NONE;
    }
    return PyObject_CallOneArg(force_slowly, arrays);
}

/* both(loss): compute an array and the cotangents of the leaves below it, where its own is 1, in one call; return the
   number of outputs, the leaves and the cotangents. None where Python has to. The caller holds the lock. */
static PyObject *both(PyObject *module, PyObject *loss) {
    (void)module;
    PyObject *found = NULL;
    int fit = run(&loss, 1, 1, &found);
    return fit < 0 ? NULL : fit ? found : Py_NewRef(Py_None);
}

static int force_one(PyObject *x) {
    int fit = computed(&x, 1);
    PyObject *arrays = fit ? NULL : PyList_New(1);
    if (!arrays) return fit > 0;
    PyList_SET_ITEM(arrays, 0, Py_NewRef(x));
    PyObject *answer = PyObject_CallOneArg(force_slowly, arrays);
    Py_DECREF(arrays);
    Py_XDECREF(answer);
    return answer != NULL;
}

/* Methods -----------------------------------------------------------------------------------------------------------*/

typedef struct {
    PyObject *first, *second; /* the types of the operands; no second one beside a number */
    double number;
    PyObject *application;
} Known;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *slowly; /* the method in Python */
    PyObject *known;  /* its applications, by the types of the operands */
    PyObject *beside; /* those beside a number */
    int reflected;    /* the other operand comes first */
    Known ways[WAYS];
} Method;

static inline PyObject *node(PyObject *application, PyObject *x, PyObject *y) {
    PyObject *operands = PyTuple_New(y ? 2 : 1);
    PyObject *serial = operands ? Py_TYPE(serials)->tp_iternext(serials) : NULL;
    PyObject *made = serial ? array_type->tp_alloc(array_type, 0) : NULL;
    if (!made) {
        Py_XDECREF(operands);
        Py_XDECREF(serial);
        return NULL;
    }
    int tracked = SLOT(x, of.tracked) == Py_True || (y && SLOT(y, of.tracked) == Py_True);
    PyTuple_SET_ITEM(operands, 0, Py_NewRef(x));
    if (y) PyTuple_SET_ITEM(operands, 1, Py_NewRef(y));
    SLOT(made, of.application) = Py_NewRef(application);
    SLOT(made, of.operands) = operands;
    SLOT(made, of.type) = Py_NewRef(SLOT(application, in.type));
    SLOT(made, of.tracked) = Py_NewRef(tracked ? SLOT(application, in.floating) : Py_False);
    SLOT(made, of.serial) = serial;
    SLOT(made, of.value) = Py_NewRef(Py_None);
    SLOT(made, of.share) = Py_NewRef(Py_None);
    SLOT(made, of.origin) = Py_NewRef(Py_None);
    return made;
}

static inline Known *way(Method *m, PyObject *first, PyObject *second, double number) {
    uint64_t bits = 0;
    memcpy(&bits, &number, sizeof bits);
    uint64_t h = (((uintptr_t)first >> 4) * 31 ^ ((uintptr_t)second >> 4) ^ bits) * 0x9E3779B97F4A7C15u;
    return &m->ways[(h >> 48) % WAYS];
}

/* An operand as it is in a node: the array that a weight holds now. NULL where this is nothing for C. */
static inline PyObject *operand(PyObject *x) {
    if (Py_IS_TYPE(x, array_type)) return x;
    PyObject *leaf = Py_IS_TYPE(x, weight_type) ? SLOT(x, at_weight.leaf) : NULL;
    return leaf && Py_IS_TYPE(leaf, array_type) ? leaf : NULL;
}

typedef struct {
    PyObject *x, *y; /* y is NULL where there is one operand, or a number */
    double number;
} Operands;

static inline int read_operands(Method *m, PyObject *const *args, Py_ssize_t count, Operands *found) {
    *found = (Operands){operand(args[0]), NULL, 0.0};
    if (!found->x || count == 1) return found->x != NULL;
    if (PyFloat_CheckExact(args[1])) return found->number = PyFloat_AS_DOUBLE(args[1]), 1;
    PyObject *other = operand(args[1]);
    if (m->reflected) found->y = found->x, found->x = other;
    else found->y = other;
    return other != NULL;
}

/* Remembers what Python has built for such operands, where Python remembers it, too. */
static int remember(Method *m, PyObject *const *args, Py_ssize_t count, PyObject *made) {
    Operands o;
    if (!Py_IS_TYPE(made, array_type) || !read_operands(m, args, count, &o)) return 1;
    PyObject *first = SLOT(o.x, of.type), *second = o.y ? SLOT(o.y, of.type) : NULL;
    PyObject *application = SLOT(made, of.application);
    if (!Py_IS_TYPE(application, application_type) || SLOT(application, in.view) != Py_None) return 1;
    PyObject *own = count == 1 ? Py_NewRef(first) : PyTuple_Pack(2, first, second ? second : args[1]);
    PyObject *found = own ? PyDict_GetItemWithError(second || count == 1 ? m->known : m->beside, own) : NULL;
    Py_XDECREF(own);
    if (found != application) return !PyErr_Occurred();
    double number = o.number;
    Known *k = way(m, first, second, number), before = *k;
    *k = (Known){Py_NewRef(first), Py_XNewRef(second), number, Py_NewRef(application)};
    Py_XDECREF(before.first);
    Py_XDECREF(before.second);
    Py_XDECREF(before.application);
    return 1;
}

static PyObject *operator_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names) {
    Method *m = (Method *)object;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    Operands o;
    int plain = !names && (count == 1 || count == 2);
    if (plain && read_operands(m, args, count, &o)) {
        PyObject *first = SLOT(o.x, of.type), *second = o.y ? SLOT(o.y, of.type) : NULL;
        Known *k = way(m, first, second, o.number);
        if (k->first == first && k->second == second && k->number == o.number) return node(k->application, o.x, o.y);
    }
    PyObject *made = PyObject_Vectorcall(m->slowly, args, nargsf, names);
    if (made && plain && !remember(m, args, count, made)) Py_CLEAR(made);
    return made;
}

/* The value of an array that no gradient may depend on, as it is. */
static PyObject *value_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names) {
    if (PyVectorcall_NARGS(nargsf) == 1 && !names && Py_IS_TYPE(args[0], array_type)
        && SLOT(args[0], of.tracked) == Py_False) {
        if (SLOT(args[0], of.value) == Py_None && !force_one(args[0])) return NULL;
        PyObject *value = SLOT(args[0], of.value);
        if (PyArray_CheckExact(value)) return Py_NewRef(value);
    }
    return PyObject_Vectorcall(((Method *)object)->slowly, args, nargsf, names);
}

static PyObject *method_get(PyObject *self, PyObject *object, PyObject *type) {
    (void)type;
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

/* What the method does not have is that of the method in Python: its name, its text, its signature. */
static PyObject *method_attribute(PyObject *self, PyObject *name) {
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    PyErr_Clear();
    return PyObject_GetAttr(((Method *)self)->slowly, name);
}

static PyMemberDef method_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Method, vectorcall), READONLY, NULL},
    {"__wrapped__", T_OBJECT_EX, offsetof(Method, slowly), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};

static PyObject *method_doc(PyObject *self, void *nothing) {
    (void)nothing;
    return PyObject_GetAttrString(((Method *)self)->slowly, "__doc__");
}

static PyObject *method_module(PyObject *self, void *nothing) {
    (void)nothing;
    return PyObject_GetAttrString(((Method *)self)->slowly, "__module__");
}

static PyGetSetDef method_properties[] = {
    {"__doc__", method_doc, NULL, NULL, NULL},
    {"__module__", method_module, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};

/* They live as long as the class, and so as the process. */
static PyType_Slot method_slots[] = {{Py_tp_call, PyVectorcall_Call},
                                     {Py_tp_descr_get, method_get},
                                     {Py_tp_getattro, method_attribute},
                                     {Py_tp_getset, method_properties},
                                     {Py_tp_members, method_members},
                                     {0, NULL}};

static PyType_Spec method_spec = {
    "pullback.runtime.lazy.Method", sizeof(Method), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, method_slots};

static PyTypeObject *method_type;

/* method(slowly, known, beside, reflected): the quick form of an operator whose applications are in dictionaries; of
   `numpy` where they are None. */
static PyObject *method(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *slowly, *known, *beside;
    int reflected;
    if (!PyArg_ParseTuple(args, "OOOp", &slowly, &known, &beside, &reflected)) return NULL;
    if (known != Py_None && (!PyDict_CheckExact(known) || !PyDict_CheckExact(beside)))
        return PyErr_Format(PyExc_TypeError, "the applications are in no dictionary");
    Method *made = (Method *)method_type->tp_alloc(method_type, 0);
    if (!made) return NULL;
    made->vectorcall = known == Py_None ? value_call : operator_call;
    made->slowly = Py_NewRef(slowly);
    made->known = Py_NewRef(known);
    made->beside = Py_NewRef(beside);
    made->reflected = reflected;
    return (PyObject *)made;
}

/* Weights -----------------------------------------------------------------------------------------------------------*/

/* Puts an array into a weight, as `Weight.hold` does, and drops its cotangent; 0 with an error. */
static int hold_one(PyObject *weight, PyObject *value) {
    PyObject *serial = Py_TYPE(serials)->tp_iternext(serials), *version = SLOT(weight, at_weight.version);
    PyObject *one = PyLong_FromLong(1), *next = one && version ? PyNumber_Add(version, one) : NULL;
    PyObject *leaf = serial && next ? array_type->tp_alloc(array_type, 0) : NULL;
    Py_XDECREF(one);
    if (!leaf) {
        Py_XDECREF(serial);
        Py_XDECREF(next);
        return 0;
    }
    if (PyArray_CheckExact(value)) PyArray_CLEARFLAGS((PyArrayObject *)value, NPY_ARRAY_WRITEABLE);
    SLOT(leaf, of.application) = Py_NewRef(Py_None);
    SLOT(leaf, of.operands) = Py_NewRef(none_at_all);
    SLOT(leaf, of.type) = Py_NewRef(SLOT(weight, of.type));
    SLOT(leaf, of.value) = Py_NewRef(value);
    SLOT(leaf, of.tracked) = Py_NewRef(Py_True);
    SLOT(leaf, of.serial) = serial;
    SLOT(leaf, of.origin) = Py_NewRef(weight);
    PyObject *gone[] = {SLOT(weight, at_weight.leaf), SLOT(weight, of.value), version, SLOT(weight, at_weight.grad)};
    SLOT(weight, at_weight.leaf) = leaf;
    SLOT(weight, of.value) = Py_NewRef(value);
    SLOT(weight, at_weight.version) = next;
    SLOT(weight, at_weight.grad) = Py_NewRef(Py_None);
    for (int k = 0; k < 4; ++k) Py_XDECREF(gone[k]);
    return 1;
}

/* hold(weights, values): put the arrays of a tuple into the weights of a list, and drop their cotangents. */
static PyObject *hold_all(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *weights, *values;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &weights, &PyTuple_Type, &values)) return NULL;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(weights); ++k) {
        PyObject *weight = Py_NewRef(PyList_GET_ITEM(weights, k));
        int fit = k < PyTuple_GET_SIZE(values) && PyObject_TypeCheck(weight, weight_type);
        if (!fit) PyErr_SetString(PyExc_TypeError, "hold takes weights and as many values");
        fit = fit && hold_one(weight, PyTuple_GET_ITEM(values, k));
        Py_DECREF(weight);
        if (!fit) return NULL;
    }
    Py_RETURN_NONE;
}

/* The module --------------------------------------------------------------------------------------------------------*/

/* bind(Array, Application, Weight, acquire, release, busy, serials, unsettled, force, watched, tape, thread_count) */
static PyObject *bind(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *array, *application, *weight;
    if (array_type) return PyErr_Format(PyExc_TypeError, "lazy arrays are bound already");
    if (!PyArg_ParseTuple(args, "O!O!O!OOOOO!OOOO", &PyType_Type, &array, &PyType_Type, &application, &PyType_Type,
                          &weight, &acquire, &release,
                          &busy, &serials, &PyList_Type, &unsettled, &force_slowly, &watched, &tape_of, &thread_count))
        return NULL;
    if (!PyIter_Check(serials)) return PyErr_Format(PyExc_TypeError, "serials is no iterator");
    if (!offset_of(array, "application", &of.application) || !offset_of(array, "operands", &of.operands)
        || !offset_of(array, "type", &of.type) || !offset_of(array, "tracked", &of.tracked)
        || !offset_of(array, "serial", &of.serial) || !offset_of(array, "value", &of.value)
        || !offset_of(array, "origin", &of.origin) || !offset_of(array, "_share", &of.share)
        || !offset_of(weight, "leaf", &at_weight.leaf) || !offset_of(weight, "grad", &at_weight.grad)
        || !offset_of(weight, "version", &at_weight.version)
        || !offset_of((PyObject *)Py_TYPE(busy), "count", &busy_at)
        || !offset_of(application, "number", &in.number) || !offset_of(application, "type", &in.type)
        || !offset_of(application, "device", &in.device) || !offset_of(application, "floating", &in.floating)
        || !offset_of(application, "checked", &in.checked) || !offset_of(application, "view", &in.view))
        return NULL;
    PyObject *kept[] = {array, application, weight, acquire, release, busy, serials, unsettled, force_slowly, watched,
                        tape_of, thread_count};
    for (size_t k = 0; k < sizeof kept / sizeof *kept; ++k) Py_INCREF(kept[k]); /* for as long as the process runs */
    array_type = (PyTypeObject *)array;
    weight_type = (PyTypeObject *)weight;
    application_type = (PyTypeObject *)application;
    Py_RETURN_NONE;
}

/* counted() -> how many calls there were since this was asked last. */
static PyObject *counted(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    unsigned long long found = found_count;
    found_count = 0;
    return PyLong_FromUnsignedLongLong(found);
}

static PyMethodDef functions[] = {{"bind", bind, METH_VARARGS, "Take the classes and functions of lazy arrays."},
                                  {"force", force, METH_O, "force($module, arrays, /)\n--\n\nCompute a list of arrays."},
                                  {"both", both, METH_O, "Compute an array and cotangents."},
                                  {"hold", hold_all, METH_VARARGS, "Put arrays into weights."},
                                  {"learn", learn, METH_VARARGS, "Take the code for a structure."},
                                  {"forget", forget, METH_NOARGS, "Drop all structures."},
                                  {"known", known_now, METH_NOARGS, "The number of structures."},
                                  {"counted", counted, METH_NOARGS, "The number of calls since the last question."},
                                  {"method", method, METH_VARARGS, "The quick form of a method."},
                                  {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_pullback_lazy", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__pullback_lazy(void) {
    import_array();
    none_at_all = PyTuple_New(0);
    zero = PyLong_FromLong(0); /* there is one */
    method_type = (PyTypeObject *)PyType_FromSpec(&method_spec);
    return none_at_all && method_type ? PyModule_Create(&definition) : NULL;
}
