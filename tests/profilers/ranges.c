/* Marks ranges as its arguments say; built twice, as a program and as a module with an NVTX of its own. */
#include <nvtx3/nvToolsExt.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

static nvtxEventAttributes_t named(const char *text) {
    nvtxEventAttributes_t event = {0};
    event.version = NVTX_VERSION, event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.messageType = NVTX_MESSAGE_TYPE_ASCII, event.message.ascii = text;
    return event;
}

#ifdef MODULE
nvtxRangeId_t module_start(void) { return nvtxRangeStartA("of the module"); }
#else

static nvtxRangeId_t crossing;

static void *run_thread(void *number) {
    char name[40];
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "thread %ld", (long)number);
        nvtxRangePushA(name);
        nvtxRangePushA("inner");
        memset(name, 'x', 8); /* names are copied */
        nvtxRangePop();
        nvtxRangePop();
    }
    return NULL;
}

static void *end_elsewhere(void *unused) {
    (void)unused;
    nvtxRangeEnd(crossing);
    return NULL;
}

static void run_each(void) {
    nvtxDomainHandle_t domain = nvtxDomainCreateA("of mine");
    nvtxEventAttributes_t event = named("ex"), wide = named(NULL), registered = named(NULL);
    wide.messageType = NVTX_MESSAGE_TYPE_UNICODE, wide.message.unicode = L"wide \u00e9\u20ac\U0001F600";
    registered.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    registered.message.registered = nvtxDomainRegisterStringA(domain, "registered");
    nvtxMarkA("mark a"), nvtxMarkW(L"mark w"), nvtxMarkEx(&event), nvtxDomainMarkEx(domain, &registered);
    nvtxRangePushA("push a"), nvtxRangePushW(L"push w"), nvtxRangePushEx(&wide);
    printf("%d", nvtxDomainRangePushEx(domain, &event)); /* level 0: another domain has another stack */
    for (int i = 0; i < 3; i++) printf(" %d", nvtxRangePop());
    for (int i = 0; i < 2; i++) printf(" %d", nvtxDomainRangePop(domain));
    nvtxRangeId_t a = nvtxRangeStartA("start a"), w = nvtxRangeStartW(L"start w"), ex = nvtxRangeStartEx(&event);
    nvtxRangeId_t own = nvtxDomainRangeStartEx(domain, &registered);
    nvtxRangeEnd(w), nvtxRangeEnd(a), nvtxDomainRangeEnd(domain, own), nvtxRangeEnd(ex), nvtxRangeEnd(ex), nvtxRangeEnd(77);
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    if (!strcmp(what, "each")) run_each();
    if (!strcmp(what, "threads")) {
        pthread_t threads[4];
        for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, run_thread, (void *)i);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
        crossing = nvtxRangeStartA("crossing");
        pthread_create(&threads[0], NULL, end_elsewhere, NULL);
        pthread_join(threads[0], NULL);
    }
    if (!strcmp(what, "fork")) {
        nvtxRangePushA("parent's");
        nvtxRangeId_t started = nvtxRangeStartA("also the parent's");
        for (int i = 0; i < 3; i++)
            if (!fork()) {
                nvtxRangePushA("child's");
                nvtxRangePop();
                nvtxRangePop(); /* of the parent's */
                nvtxRangeEnd(started);
                _exit(0);
            }
        while (wait(NULL) > 0) {}
        nvtxRangeEnd(started);
        nvtxRangePop();
    }
    if (!strcmp(what, "killed")) {
        nvtxRangePushA("whole"), nvtxRangePop();
        nvtxRangePushA("open");
        kill(getpid(), SIGKILL);
    }
    if (!strcmp(what, "many"))
        for (long i = 0, number = atol(words[2]); i < number; i++) nvtxRangePushA("many"), nvtxRangePop();
    if (!strcmp(what, "modules")) {
        nvtxRangeId_t mine = nvtxRangeStartA("of the program");
        for (int i = 2; i < count; i++) {
            void *module = dlopen(words[i], RTLD_NOW | RTLD_LOCAL);
            if (!module) return fprintf(stderr, "%s\n", dlerror()), 1;
            nvtxRangeId_t theirs = ((nvtxRangeId_t(*)(void))dlsym(module, "module_start"))();
            if (theirs == mine) return 1;
            nvtxRangeEnd(theirs); /* by another module than started it */
        }
        nvtxRangeEnd(mine);
    }
    return 0;
}
#endif
