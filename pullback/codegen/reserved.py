"""Names that generated C cannot use: words of C and C++, and what their libraries and POSIX define.

Some are taken everywhere, such as words of the languages, macros, and functions that generated code calls. Functions
of libraries are names that a local variable may have; a function that is seen by a linker, and the files named after
it, may not. By C17 and C23 (7.1.3 and each header), C++23 (5.11), POSIX.1-2017 and what gcc and clang have built in.
"""

from __future__ import annotations

import re
from typing import Final

_C: Final = """
    alignas alignof asm auto bool break case char const constexpr continue default do double else enum extern false
    float for goto if inline int long nullptr register restrict return short signed sizeof static static_assert struct
    switch thread_local true typedef typeof typeof_unqual union unsigned void volatile while
"""
_CPP: Final = """
    and and_eq bitand bitor catch char16_t char32_t char8_t class co_await co_return co_yield compl concept const_cast
    consteval constinit contract_assert decltype delete dynamic_cast explicit export friend mutable namespace new
    noexcept not not_eq operator or or_eq private protected public reinterpret_cast requires static_cast template this
    throw try typeid typename using virtual wchar_t xor xor_eq
"""
_MACROS: Final = """
    I complex imaginary errno assert noreturn math_errhandling offsetof stdin stdout stderr unix linux i386 near far
    NULL EOF BUFSIZ NAN INFINITY WEOF RAND_MAX CLOCKS_PER_SEC DECIMAL_DIG FILENAME_MAX FOPEN_MAX L_tmpnam TMP_MAX
    E2BIG EACCES EADDRINUSE EADDRNOTAVAIL EAFNOSUPPORT EAGAIN EALREADY EBADF EBADMSG EBUSY ECANCELED ECHILD ECONNABORTED
    ECONNREFUSED ECONNRESET EDEADLK EDESTADDRREQ EDOM EDQUOT EEXIST EFAULT EFBIG EHOSTUNREACH EIDRM EILSEQ EINPROGRESS
    EINTR EINVAL EIO EISCONN EISDIR ELOOP EMFILE EMLINK EMSGSIZE EMULTIHOP ENAMETOOLONG ENETDOWN ENETRESET ENETUNREACH
    ENFILE ENOBUFS ENODATA ENODEV ENOENT ENOEXEC ENOLCK ENOLINK ENOMEM ENOMSG ENOPROTOOPT ENOSPC ENOSR ENOSTR ENOSYS
    ENOTCONN ENOTDIR ENOTEMPTY ENOTRECOVERABLE ENOTSOCK ENOTSUP ENOTTY ENXIO EOPNOTSUPP EOVERFLOW EOWNERDEAD EPERM EPIPE
    EPROTO EPROTONOSUPPORT EPROTOTYPE ERANGE EROFS ESPIPE ESRCH ESTALE ETIME ETIMEDOUT ETXTBSY EWOULDBLOCK EXDEV
"""
_TYPES: Final = """
    size_t ptrdiff_t max_align_t nullptr_t intptr_t uintptr_t intmax_t uintmax_t wint_t float_t double_t
"""
_CALLED: Final = """
    acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh erf exp expm1 fabs floor fma fmax fmin fmod hypot
    ldexp log log10 log1p log2 pow rint sin sinh sqrt tan tanh trunc
"""
CALLED: Final = tuple(_CALLED.split())  # of libm, for doubles, and with an f behind for floats
_USED: Final = """
    main arena fault memcpy memset abs cbrt erfc exp2 frexp lgamma modf nan round tgamma isfinite isinf isnan isnormal
    signbit fpclassify isgreater isgreaterequal isless islessequal islessgreater isunordered
"""
_MATHEMATICS: Final = """
    acos acosh acospi asin asinh asinpi atan atan2 atan2pi atanh atanpi cabs cacos cacosh canonicalize carg casin casinh
    catan catanh cbrt ccos ccosh ceil cexp cimag clog compoundn conj copysign cos cosh cospi cpow cproj creal csin csinh
    csqrt ctan ctanh drem erf erfc exp exp10 exp10m1 exp2 exp2m1 expm1 fabs fdim finite floor fma fmax fmaximum
    fmaximum_mag fmaximum_mag_num fmaximum_num fmin fminimum fminimum_mag fminimum_mag_num fminimum_num fmod frexp
    fromfp fromfpx gamma gamma_r getpayload hypot ilogb j0 j1 jn ldexp lgamma lgamma_r llogb llrint llround log log10
    log10p1 log1p log2 log2p1 logb logp1 lrint lround modf nan nearbyint nextafter nextdown nexttoward nextup pow pow10
    pown powr remainder remquo rint rootn round roundeven rsqrt scalb scalbln scalbn setpayload setpayloadsig
    significand sin sincos sinh sinpi sqrt tan tanh tanpi tgamma totalorder totalordermag trunc ufromfp ufromfpx y0 y1
    yn
"""
_NARROW: Final = "add div fma mul sqrt sub"
_LIBRARY: Final = """
    abort abs aligned_alloc asctime asctime_r at_quick_exit atexit atof atoi atol atoll bsearch btowc c16rtomb
    c32rtomb c8rtomb call_once calloc clearerr clock ctime ctime_r difftime div exit feclearexcept fegetenv
    fegetexceptflag fegetmode fegetround feholdexcept feof feraiseexcept ferror fesetenv fesetexcept
    fesetexceptflag fesetmode fesetround fetestexcept fetestexceptflag feupdateenv fflush fgetc fgetpos fgets
    fgetwc fgetws fopen fprintf fputc fputs fputwc fputws fread free freopen fscanf fseek fsetpos ftell fwide
    fwprintf fwrite fwscanf getc getchar getenv gets getwc getwchar gmtime gmtime_r imaxabs imaxdiv isalnum
    isalpha isblank iscntrl isdigit isgraph islower isprint ispunct isspace isupper iswalnum iswalpha iswblank
    iswcntrl iswctype iswdigit iswgraph iswlower iswprint iswpunct iswspace iswupper iswxdigit isxdigit labs
    ldiv llabs lldiv localeconv localtime localtime_r longjmp malloc mblen mbrlen mbrtoc16 mbrtoc32 mbrtoc8
    mbrtowc mbsinit mbsrtowcs mbstowcs mbtowc memccpy memchr memcmp memcpy memmove memset mktime perror printf
    putc putchar puts putwc putwchar qsort quick_exit raise rand realloc remove rename rewind scanf setbuf
    setjmp setlocale setvbuf signal snprintf sprintf srand sscanf strcat strchr strcmp strcoll strcpy strcspn
    strdup strerror strfromd strfromf strfroml strftime strlen strncat strncmp strncpy strndup strpbrk strrchr
    strspn strstr strtod strtof strtoimax strtok strtol strtold strtoll strtoul strtoull strtoumax strxfrm
    swprintf swscanf system time timegm timespec_get timespec_getres tmpfile tmpnam tolower toupper towctrans
    towlower towupper ungetc ungetwc vfprintf vfscanf vfwprintf vfwscanf vprintf vscanf vsnprintf vsprintf
    vsscanf vswprintf vswscanf vwprintf vwscanf wcrtomb wcscat wcschr wcscmp wcscoll wcscpy wcscspn wcsftime
    wcslen wcsncat wcsncmp wcsncpy wcspbrk wcsrchr wcsrtombs wcsspn wcsstr wcstod wcstof wcstoimax wcstok wcstol
    wcstold wcstoll wcstombs wcstoul wcstoull wcstoumax wcsxfrm wctob wctomb wctrans wctype wmemchr wmemcmp
    wmemcpy wmemmove wmemset wprintf wscanf
"""
_POSIX: Final = """
    a64l accept access alarm alphasort basename bcmp bcopy bind brk bzero catclose catgets catopen cfgetispeed
    cfgetospeed cfsetispeed cfsetospeed chdir chmod chown clock_getcpuclockid clock_getres clock_gettime
    clock_nanosleep clock_settime close closedir closelog confstr connect creat ctermid daylight dirfd dirname
    dlclose dlerror dlopen dlsym dprintf drand48 dup dup2 duplocale endgrent endhostent endnetent endprotoent
    endpwent endservent endutxent environ erand48 execl execle execlp execv execve execvp faccessat fchdir
    fchmod fchmodat fchown fchownat fclose fcntl fdatasync fdopen fdopendir fexecve ffs fileno flockfile
    fmemopen fmtmsg fnmatch fork fpathconf freeaddrinfo freelocale fseeko fstat fstatat fstatvfs fsync ftello
    ftok ftruncate ftrylockfile ftw funlockfile futimens gai_strerror getaddrinfo getc_unlocked getchar_unlocked
    getcontext getcwd getdate getdate_err getdelim getegid geteuid getgid getgrent getgrgid getgrgid_r getgrnam
    getgrnam_r getgroups gethostbyaddr gethostbyname gethostent gethostid gethostname getitimer getline getlogin
    getlogin_r getnameinfo getnetbyaddr getnetbyname getnetent getopt getpeername getpgid getpgrp getpid getppid
    getpriority getprotobyname getprotobynumber getprotoent getpwent getpwnam getpwnam_r getpwuid getpwuid_r
    getrlimit getrusage getservbyname getservbyport getservent getsid getsockname getsockopt getsubopt
    gettimeofday getuid getutxent getutxid getutxline getwd glob globfree grantpt h_errno hcreate hdestroy
    hsearch htonl htons iconv iconv_close iconv_open if_freenameindex if_indextoname if_nameindex if_nametoindex
    index initstate insque isascii isatty jrand48 kill killpg l64a lchown lcong48 lfind link linkat lio_listio
    listen lockf lrand48 lsearch lseek lstat makecontext mbsnrtowcs mkdir mkdirat mkdtemp mkfifo mkfifoat mknod
    mknodat mkstemp mktemp mlock mlockall mmap mprotect mrand48 msgctl msgget msgrcv msgsnd msync munlock
    munlockall munmap nanosleep newlocale nftw nice nl_langinfo nrand48 ntohl ntohs open open_memstream
    open_wmemstream openat opendir openlog optarg opterr optind optopt pathconf pause pclose pipe poll popen
    pread pselect psiginfo psignal ptsname putc_unlocked putchar_unlocked putenv pututxline pwrite rand_r random
    read readdir readdir_r readlink readlinkat readv realpath recv recvfrom recvmsg regcomp regerror regexec
    regfree remque renameat rewinddir rindex rmdir sbrk scandir seed48 seekdir select semctl semget semop send
    sendmsg sendto setcontext setegid setenv seteuid setgid setgrent sethostent setitimer setlogmask setnetent
    setpgid setpgrp setpriority setprotoent setpwent setregid setreuid setrlimit setservent setsid setsockopt
    setstate setuid setutxent shm_open shm_unlink shmat shmctl shmdt shmget shutdown sigaction sigaddset
    sigaltstack sigdelset sigemptyset sigfillset sighold sigignore siginterrupt sigismember siglongjmp signgam
    sigpause sigpending sigprocmask sigqueue sigrelse sigset sigsuspend sigtimedwait sigwait sigwaitinfo sleep
    sockatmark socket socketpair srand48 srandom stat statvfs stpcpy stpncpy strcasecmp strerror_r strfmon
    strncasecmp strnlen strptime strsignal strtok_r swab swapcontext symlink symlinkat sync sysconf syslog
    tcdrain tcflow tcflush tcgetattr tcgetpgrp tcgetsid tcsendbreak tcsetattr tcsetpgrp tdelete telldir tempnam
    tfind timer_create timer_delete timer_getoverrun timer_gettime timer_settime times timezone toascii truncate
    tsearch ttyname ttyname_r twalk tzname tzset ualarm ulimit umask uname unlink unlinkat unlockpt unsetenv
    uselocale usleep utime utimensat utimes vdprintf vfork wait waitid waitpid wcpcpy wcpncpy wcscasecmp wcsdup
    wcsncasecmp wcsnlen wcsnrtombs wcswcs wcswidth wcwidth wordexp wordfree write writev
"""
_BUILT_IN: Final = """
    alloca bcmp bcopy bzero dcgettext dgettext gettext execvpe fputs_unlocked fprintf_unlocked fputc_unlocked
    fwrite_unlocked printf_unlocked putchar_unlocked puts_unlocked ffsl ffsll mempcpy rawmemchr strchrnul
    strlcat strlcpy reallocarray std
"""
_LINKED_TYPES: Final = "FILE DIR va_list jmp_buf sigjmp_buf"
_HEADERS: Final = """
    aio alloca arpa assert complex cpio ctype dirent dlfcn endian errno features fcntl fenv float fmtmsg fnmatch ftw
    getopt glob grp iconv inttypes iso646 langinfo libgen limits locale malloc math memory monetary mqueue ndbm net
    netdb nl_types poll pthread pwd regex sched search semaphore setjmp signal spawn stdalign stdarg stdatomic stdbit
    stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string strings stropts sys syslog tar termios tgmath
    threads time trace uchar ucontext ulimit unistd utime utmpx values varargs wait wchar wctype wordexp
"""
_PROJECT: Final = "all clean depend edit_cache example help install main package preinstall rebuild_cache test"

_RESERVED: Final = frozenset(
    f"{_C} {_CPP} {_MACROS} {_TYPES} {_USED}".split() + [*CALLED, *(f"{n}f" for n in CALLED)])
_LINKED: Final = frozenset(
    f"{_LIBRARY} {_POSIX} {_BUILT_IN} {_LINKED_TYPES}".split()
    + [f"{n}{suffix}" for n in _MATHEMATICS.split() for suffix in ("", "f", "l")]
    + [f"{result}{n}{argument}" for n in _NARROW.split() for result in "fd" for argument in ("", "l")])
_FILES: Final = frozenset(f"{_HEADERS} {_PROJECT}".split())

_PATTERN: Final = re.compile(
    r"_\w*|(?:pb|PB)_\w*|u?int(?:_least|_fast)?(?:8|16|32|64)_t|HUGE_VAL\w*|\w+_MAX|\w+_MIN|"
    r"(?:U?INT|PTRDIFF|SIZE|WCHAR|WINT|U?CHAR|SCHAR|U?SHRT|U?LONG|U?LLONG|FLT|DBL|LDBL|DEC\d*|FP|FE|M|MATH|LC|MB|SIG|SEEK|"
    r"EXIT|ATOMIC|TSS|ONCE|TIME)_\w*|(?:PRI|SCN)[Xdioux](?:FAST|LEAST)?(?:8|16|32|64|MAX|PTR)|SIG[A-Z]+\d?|CMPLX[FL]?")
_LINKED_PATTERN: Final = re.compile(
    r"(?:aio|atomic|cnd|if|inet|mq|mtx|posix|pthread|sched|sem|thrd|tss)_\w+|(?:is|to|str|wcs|nl_)\w+_l|\w+_t")


def is_reserved(name: str) -> bool:
    """Whether generated C cannot call anything so."""
    return name in _RESERVED or _PATTERN.fullmatch(name) is not None


def is_taken(name: str) -> bool:
    """Whether it cannot call a function so that others see, or a file."""
    known = is_reserved(name) or name in _LINKED or name.lower() in _FILES
    return known or _LINKED_PATTERN.fullmatch(name) is not None
