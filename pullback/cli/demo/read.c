/* Reads digits, images of 28 x 28 floats one behind the other, and says how long one takes.

   cc -std=c99 -O2 -march=native -Wno-psabi read.c c/digits_infer.c -o read -lm && ./read digits.f32
*/
#include <stdio.h>
#include <time.h>
#include "c/digits_infer.h"

DIGITS_INFER_STATIC_ARENA(memory);
static float image[28 * 28], scores[10];

static int read_digit(void) {
    int best = 0;
    digits_infer(image, scores, DIGITS_INFER_ALIGNED(memory));
    for (int k = 1; k < 10; ++k)
        if (scores[k] > scores[best]) best = k;
    return best;
}

int main(int count, char **words) {
    FILE *file = fopen(count == 2 ? words[1] : "digits.f32", "rb");
    if (!file) {
        perror("digits");
        return 1;
    }
    while (fread(image, sizeof image, 1, file)) printf("%d ", read_digit());
    fclose(file);
    const int times = 2000;
    const clock_t start = clock();
    for (int k = 0; k < times; ++k) read_digit();
    printf("\n%.2f microseconds\n", 1e6 * (double)(clock() - start) / CLOCKS_PER_SEC / times);
    return 0;
}
