/* What a test asks of the driver, as words in FAKE_CUDA or through `fake_cuda_set`; and counts of what was called.

   devices=2          their number                      memory=BYTES      of each device
   driver=12990       its version                       capability=90     of each device
   multiprocessors=4  of each device: each runs every fourth group, one after the other
   order=ORDER        of groups and threads: forward, reversed, or the seed of a shuffle
   fresh=255          the byte that fills new memory    late=1            work runs only when it is waited for
   fail=CALL:K:ERROR  the K-th call of this name from now fails
   lost=K             from the K-th call on that needs a context, all such calls fail
   broken=N           device N is lost: its queued work fails, and so do calls in its context
   time=GROUPSxTHREADS:NS  how long launches of so many groups and threads take by the events; 1000 ns otherwise; 0x0 for a library
   slow=K:PERCENT     from the K-th launch from now on, launches take so many percent of their time
   flicker=PERCENT    the first 150 of 350 launches take so many percent of their time, and so on */
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <sstream>
#include <string>

struct settings {
    int broken = -1, devices = 1, driver = 12990, capability = 90, multiprocessors = 132;
    size_t memory = size_t(1) << 31;
    int order = 0; /* -1: reversed; above 0: a seed */
    unsigned char fresh = 0xEE;
    bool late = false;
    std::string failing; /* a call, which fails after so many with this error */
    long fails_after = 0, lost_after = 0;
    int error = 0;
    std::map<std::pair<uint64_t, uint64_t>, uint64_t> times; /* of launches by groups and threads */
    long slow_after = 0, slow = 100, flicker = 100;

    bool set(const char *text) {
        std::istringstream words(text);
        for (std::string word; words >> word;) {
            const size_t k = word.find('=');
            if (k == std::string::npos || !set(word.substr(0, k), word.substr(k + 1))) return false;
        }
        return true;
    }

  private:
    bool set(const std::string &name, const std::string &value) {
        const long n = strtol(value.c_str(), nullptr, 10);
        if (name == "devices") devices = n;
        else if (name == "driver") driver = n;
        else if (name == "capability") capability = n;
        else if (name == "multiprocessors") multiprocessors = n;
        else if (name == "memory") memory = n;
        else if (name == "order") order = value == "reversed" ? -1 : value == "forward" ? 0 : n;
        else if (name == "fresh") fresh = n;
        else if (name == "late") late = n;
        else if (name == "broken") broken = n;
        else if (name == "lost") lost_after = n;
        else if (name == "flicker") flicker = n;
        else if (name == "time") {
            const size_t x = value.find('x'), colon = value.find(':');
            times[{n, atol(value.c_str() + x + 1)}] = atol(value.c_str() + colon + 1);
        } else if (name == "slow") {
            slow_after = n, slow = atol(value.c_str() + value.find(':') + 1);
        } else if (name == "fail") {
            std::istringstream parts(value);
            std::string k, code;
            getline(parts, failing, ':'), getline(parts, k, ':'), getline(parts, code);
            fails_after = atol(k.c_str()), error = atoi(code.c_str());
        } else return false;
        return true;
    }
};

static settings initial() {
    settings s;
    const char *text = getenv("FAKE_CUDA");
    if (text && !s.set(text)) abort();
    return s;
}

static settings wanted = initial();
static std::map<std::string, uint64_t> counts; /* calls by name, and other figures */
static std::string message;                    /* why the last call that failed did */

static int refuse(int error, const std::string &why) { return message = why, error; }

/* The error on request of a call, or 0. */
static int fails(const char *call) {
    ++counts[call];
    if (wanted.fails_after && wanted.failing == call && !--wanted.fails_after) {
        return refuse(wanted.error, std::string(call) + " fails on request");
    }
    return 0;
}
