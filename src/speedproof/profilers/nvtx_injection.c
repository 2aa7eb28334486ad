/* What NVTX loads into a program by NVTX_INJECTION64_PATH: it writes down when ranges of wanted names begin and end.
 *
 * NVTX v3 is header-only, so each module of a program (torch, NCCL, a Python extension) initialises apart, and asks this library to
 * fill its table of functions. A process writes to a mapped file of its own in the folder SPEEDPROOF_RANGES, and so leaves what it
 * wrote however it ends; a forked one begins a new file with its first range. SPEEDPROOF_RANGE_NAMES says which names are kept, one
 * a line, where `*` stands for anything; SPEEDPROOF_RANGE_MOST, how many a process may keep. What is not kept is counted.
 *
 * The few types of NVTX are declared here, after its headers of version 3 (nvtxDetail/nvtxTypes.h: tables, numbers of functions;
 * nvToolsExt.h: attributes of an event). The layout of the file stands once more in ranges_file.py.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

/* --- NVTX's own -------------------------------------------------------------------------------------------------------------- */

typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t colour_type;
    uint32_t colour;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
} Attributes;
enum { MESSAGE_ASCII = 1, MESSAGE_WIDE = 2, MESSAGE_REGISTERED = 3 };
enum { CALLBACKS = 1, CORE = 1, CORE2 = 5 };

typedef void (*Function)(void);
typedef struct {
    size_t size;
    int (*get_table)(int module, Function ***table, unsigned *size);
} Callbacks;
typedef const void *(*GetExportTable)(uint32_t table);

/* --- The file ---------------------------------------------------------------------------------------------------------------- */

enum { NAME_BYTES = 80, RECORDS_A_CHUNK = 8192, MOST_CHUNKS = 1024, HEADER_BYTES = 65536 };
enum { MARK = 1, PUSHED = 2, STARTED = 3, DOMAIN_NAME = 4 };

typedef struct {
    uint64_t begin_ns, end_ns; /* of the machine's monotonic clock; 0: has not ended */
    uint64_t id;               /* as the program knows a started range; 0 of others */
    uint32_t thread, end_thread, domain;
    uint16_t level, cut;     /* how many ranges of its thread and domain hold it; whether its name is longer */
    _Atomic uint32_t kind;   /* written last: 0 where the process ended in between */
    uint32_t reserved;
    char name[NAME_BYTES];
} Record;

typedef struct {
    char magic[8];
    uint32_t version, record_bytes, header_bytes, process;
    uint64_t opened_ns, most;
    _Atomic uint64_t records, dropped, others, unmatched, modules;
} Header;

_Static_assert(sizeof(Record) == 128, "ranges_file.py says how records lie");
_Static_assert(sizeof(Header) == 80, "ranges_file.py says how the header lies");

/* --- This process ------------------------------------------------------------------------------------------------------------ */

typedef struct Domain {
    struct Domain *next;
    uint32_t number;
    _Atomic uint32_t told; /* the last process that told its name */
    char name[];
} Domain;

typedef struct {
    bool wanted;
    char text[];
} String;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *folder, *names;
static uint64_t most = 1 << 20;
static Domain *domains;
static uint32_t last_domain;
static _Atomic uint64_t unkept;              /* ids of started ranges that are not kept */
static _Atomic uint32_t generation = 1;      /* grows with each fork */
static _Atomic(Header *) header;
static _Atomic(Record *) chunks[MOST_CHUNKS];
static char path[4096];
static bool failed;

static uint64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

/* Map more of the file, and take the room on its disk first: a full disk must not end the program with SIGBUS. */
static void *map_file(int flags, off_t offset, size_t bytes) {
    int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    if (file < 0) return NULL;
    void *mapped = posix_fallocate(file, offset, (off_t)bytes) == 0
                       ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, offset)
                       : MAP_FAILED;
    close(file);
    return mapped == MAP_FAILED ? NULL : mapped;
}

/* Return this process' file, created at the first call; NULL if that fails. */
static Header *open_file(void) {
    Header *found = atomic_load_explicit(&header, memory_order_acquire);
    if (found || failed) return found;
    pthread_mutex_lock(&lock);
    found = atomic_load(&header);
    if (!found && !failed) {
        uint64_t at = now_ns();
        int written = snprintf(path, sizeof path, "%s/%d-%llu.ranges", folder, (int)getpid(), (unsigned long long)at);
        if (written > 0 && written < (int)sizeof path) found = map_file(O_CREAT | O_EXCL, 0, HEADER_BYTES);
        if (found) {
            found->version = 1, found->record_bytes = sizeof(Record), found->header_bytes = HEADER_BYTES;
            found->process = (uint32_t)getpid(), found->opened_ns = at, found->most = most;
            memcpy(found->magic, "SPRANGES", 8);
            atomic_store_explicit(&header, found, memory_order_release);
        }
        failed = !found;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static Record *find_record(uint64_t number) {
    _Atomic(Record *) *chunk = &chunks[number / RECORDS_A_CHUNK];
    Record *found = atomic_load_explicit(chunk, memory_order_acquire);
    if (!found) {
        pthread_mutex_lock(&lock);
        found = atomic_load(chunk);
        if (!found) {
            size_t bytes = RECORDS_A_CHUNK * sizeof(Record);
            off_t offset = HEADER_BYTES + (off_t)(number / RECORDS_A_CHUNK) * (off_t)bytes;
            found = map_file(0, offset, bytes);
            atomic_store_explicit(chunk, found, memory_order_release);
        }
        pthread_mutex_unlock(&lock);
        if (!found) return NULL;
    }
    return &found[number % RECORDS_A_CHUNK];
}

/* Return a record's number, from 1, and the record; 0 if it is dropped. */
static uint64_t claim_record(Record **record) {
    Header *file = open_file();
    if (!file) return 0;
    uint64_t number = atomic_fetch_add_explicit(&file->records, 1, memory_order_relaxed);
    *record = number < file->most ? find_record(number) : NULL;
    if (!*record) {
        atomic_fetch_add_explicit(&file->dropped, 1, memory_order_relaxed);
        return 0;
    }
    return number + 1;
}

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
static void begin_anew(void) {
    pthread_mutex_init(&lock, NULL);
    atomic_fetch_add(&generation, 1);
    atomic_store(&header, NULL);
    for (int chunk = 0; chunk < MOST_CHUNKS; chunk++) atomic_store(&chunks[chunk], NULL);
    failed = false;
}

/* --- Threads, each with a stack of open ranges a domain ---------------------------------------------------------------------- */

typedef struct {
    uint64_t number; /* of its record, from 1; 0: it is not kept */
    uint32_t generation;
} Open;

typedef struct Stack {
    struct Stack *next;
    const Domain *domain;
    size_t depth, room;
    Open *open;
} Stack;

typedef struct {
    uint32_t thread, generation;
    Stack *stacks;
} Thread;

static __thread Thread *own;
static pthread_key_t threads;

static void free_thread(void *left) {
    Thread *thread = left;
    for (Stack *stack = thread->stacks, *next; stack; stack = next) {
        next = stack->next;
        free(stack->open);
        free(stack);
    }
    free(thread);
    own = NULL;
}

static Thread *this_thread(void) {
    if (!own && (own = calloc(1, sizeof *own))) pthread_setspecific(threads, own);
    uint32_t current = atomic_load_explicit(&generation, memory_order_relaxed);
    if (own && own->generation != current) {
        own->generation = current;
        own->thread = (uint32_t)syscall(SYS_gettid);
    }
    return own;
}

static Stack *find_stack(Thread *thread, const Domain *domain) {
    Stack *stack = thread->stacks;
    while (stack && stack->domain != domain) stack = stack->next;
    if (!stack && (stack = calloc(1, sizeof *stack))) {
        stack->domain = domain, stack->next = thread->stacks;
        thread->stacks = stack;
    }
    return stack;
}

/* --- Names ------------------------------------------------------------------------------------------------------------------- */

static bool matches(const char *pattern, const char *end, const char *name) {
    const char *star = NULL, *again = NULL;
    while (*name) {
        if (pattern < end && *pattern == '*') star = ++pattern, again = name;
        else if (pattern < end && *pattern == *name) pattern++, name++;
        else if (star) pattern = star, name = ++again;
        else return false;
    }
    while (pattern < end && *pattern == '*') pattern++;
    return pattern == end;
}

static bool is_wanted(const char *name) {
    for (const char *line = names; *line;) {
        const char *end = strchrnul(line, '\n');
        if (matches(line, end, name)) return true;
        line = *end ? end + 1 : end;
    }
    return false;
}

/* Write a wide text as UTF-8, as far as there is room; a longer one is cut in the middle of a character at most. */
static const char *narrow(const wchar_t *wide, char *text, size_t room) {
    size_t at = 0;
    for (; wide && *wide && at + 5 < room; wide++) {
        uint32_t code = (uint32_t)*wide;
        if (code < 0x80) text[at++] = (char)code;
        else if (code < 0x800) text[at++] = (char)(0xC0 | code >> 6), text[at++] = (char)(0x80 | (code & 63));
        else if (code < 0x10000) {
            text[at++] = (char)(0xE0 | code >> 12);
            text[at++] = (char)(0x80 | (code >> 6 & 63)), text[at++] = (char)(0x80 | (code & 63));
        } else {
            text[at++] = (char)(0xF0 | (code >> 18 & 7)), text[at++] = (char)(0x80 | (code >> 12 & 63));
            text[at++] = (char)(0x80 | (code >> 6 & 63)), text[at++] = (char)(0x80 | (code & 63));
        }
    }
    text[at] = 0;
    return text;
}

enum { WIDE_BYTES = 512 };

/* Return the name of an event, and whether it is wanted; a wide name is converted into `room`. */
static const char *read_name(const Attributes *event, char *room, bool *wanted) {
    const char *name = "";
    if (event && event->size >= offsetof(Attributes, message) + sizeof event->message && event->message) {
        if (event->message_type == MESSAGE_REGISTERED) {
            const String *string = event->message;
            *wanted = string->wanted;
            return string->text;
        }
        if (event->message_type == MESSAGE_ASCII) name = event->message;
        if (event->message_type == MESSAGE_WIDE) name = narrow(event->message, room, WIDE_BYTES);
    }
    *wanted = is_wanted(name);
    return name;
}

static void copy_name(Record *record, const char *name) {
    size_t bytes = strnlen(name, NAME_BYTES);
    record->cut = bytes == NAME_BYTES;
    memcpy(record->name, name, bytes == NAME_BYTES ? NAME_BYTES - 1 : bytes);
}

static void publish(Record *record, uint32_t kind) { atomic_store_explicit(&record->kind, kind, memory_order_release); }

/* --- Events ------------------------------------------------------------------------------------------------------------------ */

static void count_other(void) {
    Header *file = atomic_load_explicit(&header, memory_order_acquire);
    if (file) atomic_fetch_add_explicit(&file->others, 1, memory_order_relaxed);
}

static void count_unmatched(void) {
    Header *file = open_file();
    if (file) atomic_fetch_add_explicit(&file->unmatched, 1, memory_order_relaxed);
}

/* Say what a domain is called, once a file. */
static uint32_t tell_domain(Domain *domain) {
    uint32_t current = atomic_load_explicit(&generation, memory_order_relaxed);
    if (domain && atomic_load_explicit(&domain->told, memory_order_relaxed) != current
        && atomic_exchange(&domain->told, current) != current) {
        Record *record;
        if (claim_record(&record)) {
            record->domain = domain->number;
            copy_name(record, domain->name);
            publish(record, DOMAIN_NAME);
        }
    }
    return domain ? domain->number : 0;
}

/* Keep an event that begins now, and return its record's number, from 1; 0 if it is dropped. */
static uint64_t keep(Domain *domain, const char *name, uint32_t kind, size_t level) {
    Thread *thread = this_thread();
    uint32_t number_of_domain = tell_domain(domain);
    Record *record;
    uint64_t number = claim_record(&record);
    if (!number) return 0;
    record->domain = number_of_domain;
    record->thread = thread ? thread->thread : 0;
    record->level = (uint16_t)(level < UINT16_MAX ? level : UINT16_MAX);
    if (kind == STARTED) record->id = (uint64_t)atomic_load(&generation) << 32 | number;
    copy_name(record, name);
    record->begin_ns = now_ns();
    if (kind == MARK) record->end_ns = record->begin_ns;
    publish(record, kind);
    return number;
}

static void finish(uint64_t number) {
    uint64_t at_ns = now_ns();
    Record *record = find_record(number - 1);
    Thread *thread = this_thread();
    if (!record) return;
    if (record->end_ns) {
        count_unmatched();
        return;
    }
    record->end_thread = thread ? thread->thread : 0;
    record->end_ns = at_ns;
}

static void mark(Domain *domain, const char *name, bool wanted) {
    if (wanted) keep(domain, name, MARK, 0);
    else count_other();
}

static uint64_t start(Domain *domain, const char *name, bool wanted) {
    uint64_t number = wanted ? keep(domain, name, STARTED, 0) : 0;
    if (!wanted) count_other();
    return number ? (uint64_t)atomic_load(&generation) << 32 | number : 1ull << 63 | atomic_fetch_add(&unkept, 1);
}

static void end(uint64_t id) {
    uint64_t number = id & UINT32_MAX;
    if (id >> 63 || (id >> 32 && id >> 32 != atomic_load(&generation))) return; /* not kept, or begun before a fork */
    Header *file = atomic_load(&header);
    if (!(id >> 32) || !number || !file || number > file->most || number > atomic_load(&file->records)) count_unmatched();
    else finish(number);
}

static int push(Domain *domain, const char *name, bool wanted) {
    Thread *thread = this_thread();
    Stack *stack = thread ? find_stack(thread, domain) : NULL;
    if (!wanted) count_other();
    if (stack && stack->depth == stack->room) {
        size_t room = stack->room ? 2 * stack->room : 32;
        Open *more = realloc(stack->open, room * sizeof *more);
        if (more) stack->open = more, stack->room = room;
    }
    if (!stack || stack->depth == stack->room) return -1;
    uint64_t number = wanted ? keep(domain, name, PUSHED, stack->depth) : 0;
    stack->open[stack->depth++] = (Open){number, atomic_load(&generation)};
    return (int)stack->depth - 1;
}

static int pop(Domain *domain) {
    Thread *thread = this_thread();
    Stack *stack = thread ? find_stack(thread, domain) : NULL;
    if (!stack || !stack->depth) {
        count_unmatched();
        return -1;
    }
    Open open = stack->open[--stack->depth];
    if (open.number && open.generation == atomic_load(&generation)) finish(open.number);
    return (int)stack->depth;
}

/* --- What modules call ------------------------------------------------------------------------------------------------------- */

#define NAMED(event) char room[WIDE_BYTES]; bool wanted; const char *name = read_name(event, room, &wanted)
#define PLAIN(text) const char *name = (text) ? (text) : ""; bool wanted = is_wanted(name)
#define WIDE(text) char room[WIDE_BYTES]; PLAIN(narrow(text, room, sizeof room))

static void mark_ex(const Attributes *event) { NAMED(event); mark(NULL, name, wanted); }
static void mark_a(const char *text) { PLAIN(text); mark(NULL, name, wanted); }
static void mark_w(const wchar_t *text) { WIDE(text); mark(NULL, name, wanted); }
static uint64_t start_ex(const Attributes *event) { NAMED(event); return start(NULL, name, wanted); }
static uint64_t start_a(const char *text) { PLAIN(text); return start(NULL, name, wanted); }
static uint64_t start_w(const wchar_t *text) { WIDE(text); return start(NULL, name, wanted); }
static int push_ex(const Attributes *event) { NAMED(event); return push(NULL, name, wanted); }
static int push_a(const char *text) { PLAIN(text); return push(NULL, name, wanted); }
static int push_w(const wchar_t *text) { WIDE(text); return push(NULL, name, wanted); }
static int pop_any(void) { return pop(NULL); }
static void domain_mark(Domain *domain, const Attributes *event) { NAMED(event); mark(domain, name, wanted); }
static uint64_t domain_start(Domain *domain, const Attributes *event) { NAMED(event); return start(domain, name, wanted); }
static void domain_end(Domain *domain, uint64_t id) { (void)domain; end(id); }
static int domain_push(Domain *domain, const Attributes *event) { NAMED(event); return push(domain, name, wanted); }

/* A domain of one name is one, whichever module makes it; it is never freed, since ranges of it may be open. */
static Domain *create_domain(const char *text) {
    const char *name = text ? text : "";
    pthread_mutex_lock(&lock);
    Domain *domain = domains;
    while (domain && strcmp(domain->name, name)) domain = domain->next;
    if (!domain && (domain = calloc(1, sizeof *domain + strlen(name) + 1))) {
        strcpy(domain->name, name);
        domain->number = ++last_domain, domain->next = domains;
        domains = domain;
    }
    pthread_mutex_unlock(&lock);
    return domain;
}
static Domain *create_domain_w(const wchar_t *text) { char room[WIDE_BYTES]; return create_domain(narrow(text, room, sizeof room)); }

/* A registered string is wanted or not once for all; it is never freed, since nothing says when the program needs it no more. */
static String *register_string(Domain *domain, const char *text) {
    PLAIN(text);
    (void)domain;
    String *string = calloc(1, sizeof *string + strlen(name) + 1);
    if (string) strcpy(string->text, name), string->wanted = wanted;
    return string;
}
static String *register_string_w(Domain *domain, const wchar_t *text) {
    char room[WIDE_BYTES];
    return register_string(domain, narrow(text, room, sizeof room));
}

/* By the numbers that NVTX gives its functions. */
static const Function CORE_FUNCTIONS[] = {
    [1] = (Function)mark_ex, [2] = (Function)mark_a, [3] = (Function)mark_w,
    [4] = (Function)start_ex, [5] = (Function)start_a, [6] = (Function)start_w, [7] = (Function)end,
    [8] = (Function)push_ex, [9] = (Function)push_a, [10] = (Function)push_w, [11] = (Function)pop_any,
};
static const Function CORE2_FUNCTIONS[] = {
    [1] = (Function)domain_mark, [2] = (Function)domain_start, [3] = (Function)domain_end,
    [4] = (Function)domain_push, [5] = (Function)pop,
    [10] = (Function)register_string, [11] = (Function)register_string_w,
    [12] = (Function)create_domain, [13] = (Function)create_domain_w,
};

static void fill_table(const Callbacks *callbacks, int module, const Function *functions, unsigned count) {
    Function **table = NULL;
    unsigned size = 0;
    if (!callbacks->get_table(module, &table, &size) || !table) return;
    for (unsigned number = 1; number < count && number < size; number++)
        if (functions[number] && table[number]) *table[number] = functions[number];
}

/* Read what is asked, once; the library stays in the process however often NVTX opens and closes it (-z nodelete). */
static void begin(void) {
    folder = getenv("SPEEDPROOF_RANGES");
    names = getenv("SPEEDPROOF_RANGE_NAMES");
    const char *number = getenv("SPEEDPROOF_RANGE_MOST");
    if (!folder || !names) return;
    folder = strdup(folder), names = strdup(names); /* a program may change its environment */
    uint64_t limit = (uint64_t)MOST_CHUNKS * RECORDS_A_CHUNK;
    if (number && *number) most = strtoull(number, NULL, 10);
    if (most > limit) most = limit;
    if (pthread_key_create(&threads, free_thread) || pthread_atfork(before_fork, after_fork, begin_anew)) folder = NULL;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* For the instrument, in a process of its own: nanoseconds that a range of this name costs, pushed and popped; -1 where none can. */
__attribute__((visibility("default"))) double speedproof_range_ns(const char *name, unsigned times) {
    pthread_once(&once, begin);
    if (!folder || !names || !open_file()) return -1;
    uint64_t from_ns = now_ns();
    for (unsigned range = 0; range < times; range++) push_a(name), pop_any();
    return (double)(now_ns() - from_ns) / times;
}

/* What each module calls first: 1 where its ranges are taken, 0 where it does without. */
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(GetExportTable get_export_table) {
    pthread_once(&once, begin);
    const Callbacks *callbacks = get_export_table ? get_export_table(CALLBACKS) : NULL;
    if (!folder || !names || !callbacks || callbacks->size < sizeof *callbacks) return 0;
    Header *file = open_file();
    if (!file) return 0;
    atomic_fetch_add(&file->modules, 1);
    fill_table(callbacks, CORE, CORE_FUNCTIONS, sizeof CORE_FUNCTIONS / sizeof *CORE_FUNCTIONS);
    fill_table(callbacks, CORE2, CORE2_FUNCTIONS, sizeof CORE2_FUNCTIONS / sizeof *CORE2_FUNCTIONS);
    return 1;
}
