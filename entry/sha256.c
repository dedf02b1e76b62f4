/* SHA-256, as in FIPS 180-4. */
#include <string.h>

#include "entry.h"

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t word, int by) { return word >> by | word << (32 - by); }

static void take_block(uint32_t state[8], const uint8_t *block) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t first = turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t second = turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + first + w[i - 7] + second;
    }
    memcpy(s, state, sizeof s);
    /* The words stay where they are, and their names move: to move them takes most of the time. */
    for (unsigned i = 0; i < 64; i++) {
        uint32_t a = s[-i & 7], b = s[(1 - i) & 7], c = s[(2 - i) & 7], e = s[(4 - i) & 7], f = s[(5 - i) & 7], g = s[(6 - i) & 7];
        uint32_t one = turn(e, 6) ^ turn(e, 11) ^ turn(e, 25), choice = (e & f) ^ (~e & g);
        uint32_t zero = turn(a, 2) ^ turn(a, 13) ^ turn(a, 22), majority = (a & b) ^ (a & c) ^ (b & c);
        uint32_t first = s[(7 - i) & 7] + one + choice + K[i] + w[i];
        s[(3 - i) & 7] += first;
        s[(7 - i) & 7] = first + zero + majority;
    }
    for (int i = 0; i < 8; i++) state[i] += s[i];
    explicit_bzero(w, sizeof w); /* a part of what is digested, and so of the caller's variables */
}

void sha256(const uint8_t *bytes, size_t size, uint8_t digest[KEY_SIZE]) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint8_t last[128] = {0};
    size_t whole = size / 64, left = size % 64, blocks = left < 56 ? 1 : 2;
    for (size_t i = 0; i < whole; i++) take_block(state, bytes + 64 * i);
    memcpy(last, bytes + 64 * whole, left);
    last[left] = 0x80;
    for (int i = 0; i < 8; i++) last[64 * blocks - 1 - (size_t)i] = (uint8_t)((uint64_t)size * 8 >> 8 * i);
    for (size_t i = 0; i < blocks; i++) take_block(state, last + 64 * i);
    explicit_bzero(last, sizeof last);
    for (int i = 0; i < 32; i++) digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}
