/* A compiler for tests in place of NVRTC: `g++` makes a shared object of the text of CUDA, which the driver for tests
   takes as a cubin.

   FAKE_NVRTC_HOME    the folder with words.h, and with what was compiled, by its content */
#include <ctype.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

extern char **environ;

enum { SUCCESS, OUT_OF_MEMORY, CREATION_FAILURE, INVALID_INPUT, INVALID_PROGRAM, INVALID_OPTION, COMPILATION };

struct program {
    std::string text, log, cubin;
};
static uint64_t compiled; /* runs of g++ */
static std::vector<std::string> flags; /* of g++ */
static std::mutex one_at_a_time;

/* The text ------------------------------------------------------------------------------------------------------ */

static bool is_part(char c) { return isalnum((unsigned char)c) || c == '_'; }

static size_t size_of(const std::string &type) {
    static const struct { const char *name; size_t bytes; } sizes[] = {
        {"double", 8}, {"int64_t", 8}, {"uint64_t", 8}, {"long", 8}, {"float", 4}, {"int32_t", 4}, {"uint32_t", 4},
        {"int", 4}, {"unsigned", 4}, {"int16_t", 2}, {"uint16_t", 2}, {"short", 2}, {"__half", 2}, {"_Float16", 2}};
    for (const auto &s : sizes) {
        if (type == s.name) return s.bytes;
    }
    return 1;
}

/* The bytes of `__shared__ type name[elements];` in the text of a kernel. */
static size_t shared_bytes(const std::string &text) {
    size_t total = 0;
    for (size_t k = 0; (k = text.find("__shared__ ", k)) != std::string::npos;) {
        k += strlen("__shared__ ");
        std::string type = text.substr(k, text.find(' ', k) - k);
        size_t bytes = size_of(type);
        for (size_t p = k; text[p] != ';'; ++p) {
            if (text[p] == '[') bytes *= strtoull(&text[p + 1], nullptr, 10);
        }
        total += bytes;
    }
    return total;
}

/* The table of kernels: name, bound of threads, shared bytes, and whether threads meet. */
static std::string table(const std::string &text) {
    const std::string word = "__global__";
    const size_t first = text.find(word);
    const bool helpers_meet = text.substr(0, first).find("__syncthreads") != std::string::npos;
    std::ostringstream rows;
    for (size_t k = first; k != std::string::npos;) {
        const size_t next = text.find(word, k + 1);
        const std::string part = text.substr(k, next - k);
        const size_t bound = part.find("__launch_bounds__("), start = part.find("void ") + 5;
        const bool bounded = bound != std::string::npos && bound < start;
        size_t end = start;
        while (is_part(part[end])) ++end;
        const bool meets = helpers_meet || part.find("__syncthreads") != std::string::npos;
        rows << "KERNEL(" << part.substr(start, end - start) << ", "
             << (bounded ? atoi(&part[bound + strlen("__launch_bounds__(")]) : 1024) << ", " << shared_bytes(part)
             << ", " << (meets ? "true" : "false") << "),\n";
        k = next;
    }
    return rows.str();
}

/* Compilation ---------------------------------------------------------------------------------------------------- */

static uint64_t digest(const std::string &text, uint64_t h) {
    for (unsigned char c : text) h = (h ^ c) * 1099511628211u;
    return h;
}

static std::string contents(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

static const std::string &home() {
    static std::string path;
    if (path.empty()) path = getenv("FAKE_NVRTC_HOME") ? getenv("FAKE_NVRTC_HOME") : ".";
    return path;
}

static std::string headers() { return contents(home() + "/words.h") + contents(home() + "/module.h"); }

/* Run a command, what it prints goes to a file. */
static int run(const std::vector<std::string> &command, const std::string &log) {
    std::vector<char *> words;
    for (const std::string &w : command) words.push_back((char *)w.c_str());
    words.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    pid_t child;
    int status = -1;
    if (!posix_spawnp(&child, words[0], &files, nullptr, words.data(), environ)) waitpid(child, &status, 0);
    posix_spawn_file_actions_destroy(&files);
    return status;
}

struct options {
    std::string architecture = "sm_75";
    bool fused = true;
};

static bool understood(const char *o, options &out) {
    const std::string option = o;
    for (const char *name : {"--gpu-architecture=", "-arch="}) {
        if (!option.rfind(name, 0)) return out.architecture = option.substr(strlen(name)), true;
    }
    if (option == "--fmad=false" || option == "-fmad=false") return out.fused = false, true;
    for (const char *name : {"--std=", "-std=", "--ptxas-options=", "-Xptxas", "-lineinfo", "--generate-line-info",
                             "--fmad=", "-fmad=", "-default-device", "--use_fast_math=false", "-D", "--define-macro="}) {
        if (!option.rfind(name, 0)) return true;
    }
    return false;
}

static int compile(program &p, const options &o) {
    static const bool has_fma = __builtin_cpu_supports("fma");
    const std::string rows = table(p.text);
    const std::string unit = "#include \"words.h\"\n#line 1 \"kernels.cu\"\n" + p.text + "\nMODULE(\"" + o.architecture + "\",\n" + rows + ")\n";
    std::vector<std::string> command = {
        "g++", "-std=c++17", "-w", "-O1", "-shared", "-fPIC", "-nostdlib", "-fno-exceptions", "-fno-rtti",
        "-fno-math-errno", "-fno-asynchronous-unwind-tables", "-fno-gnu-unique", "-fvisibility=hidden", "-I" + home(),
        o.fused && has_fma ? "-ffp-contract=fast" : "-ffp-contract=off"};
    if (o.fused && has_fma) command.insert(command.end(), {"-mfma", "-fexpensive-optimizations"});
    command.insert(command.end(), flags.begin(), flags.end());
    std::string key = unit + headers();
    for (const std::string &w : command) key += w;
    char name[40];
    snprintf(name, sizeof name, "%016llx%016llx", (unsigned long long)digest(key, 14695981039346656037u),
             (unsigned long long)digest(key, 88172645463325252u));
    const std::string object = home() + "/" + name + ".so", own = object + "." + std::to_string(getpid());
    if (access(object.c_str(), R_OK)) {
        std::ofstream(own + ".cpp") << unit;
        command.insert(command.end(), {own + ".cpp", "-o", own, "-lm", "-lc"});
        ++compiled;
        const int status = run(command, own + ".log");
        p.log = contents(own + ".log");
        if (!status) rename(own.c_str(), object.c_str());
        unlink((own + ".cpp").c_str()), unlink((own + ".log").c_str());
        if (status) return COMPILATION;
    }
    return p.cubin = contents(object), SUCCESS;
}

/* What NVRTC has ------------------------------------------------------------------------------------------------- */

static int give(const std::string &text, char *out) { return memcpy(out, text.c_str(), text.size()), SUCCESS; }
static int size(size_t n, size_t *out) { return *out = n, SUCCESS; }

extern "C" {
uint64_t fake_nvrtc_count() { return compiled; }
void fake_nvrtc_flags(const char *words) {
    std::istringstream given(words);
    flags.clear();
    for (std::string w; given >> w;) flags.push_back(w);
}

/* Another version for each text of the headers: images are kept by it. */
int nvrtcVersion(int *major, int *minor) {
    return *major = 12, *minor = digest(headers(), 1) % 1000000, SUCCESS;
}
const char *nvrtcGetErrorString(int error) {
    return error == COMPILATION ? "NVRTC_ERROR_COMPILATION" : error == INVALID_OPTION ? "NVRTC_ERROR_INVALID_OPTION"
         : error ? "NVRTC_ERROR" : "NVRTC_SUCCESS";
}
int nvrtcGetNumSupportedArchs(int *n) { return *n = 4, SUCCESS; }
int nvrtcGetSupportedArchs(int *out) {
    for (int a : {75, 80, 90, 120}) *out++ = a;
    return SUCCESS;
}
int nvrtcCreateProgram(program **out, const char *text, const char *, int, const char *const *, const char *const *) {
    return *out = new program{text, "", ""}, SUCCESS;
}
int nvrtcDestroyProgram(program **p) { return delete *p, *p = nullptr, SUCCESS; }
int nvrtcCompileProgram(program *p, int n, const char *const *given) {
    const std::lock_guard<std::mutex> lock(one_at_a_time);
    options o;
    for (int k = 0; k < n; ++k) {
        if (!understood(given[k], o)) {
            p->log = "nvrtc: error: unrecognized option " + std::string(given[k]) + "\n";
            return INVALID_OPTION;
        }
    }
    return compile(*p, o);
}
int nvrtcGetCUBINSize(program *p, size_t *out) { return size(p->cubin.size(), out); }
int nvrtcGetCUBIN(program *p, char *out) { return give(p->cubin, out); }
int nvrtcGetPTXSize(program *p, size_t *out) { return size(p->cubin.size(), out); }
int nvrtcGetPTX(program *p, char *out) { return give(p->cubin, out); }
int nvrtcGetProgramLogSize(program *p, size_t *out) { return size(p->log.size() + 1, out); }
int nvrtcGetProgramLog(program *p, char *out) { return out[p->log.size()] = 0, give(p->log, out); }
}
