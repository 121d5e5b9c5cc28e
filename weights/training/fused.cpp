// The passes between two convolutions, each over memory once, in f32 or bf16, channels last: ELU, and InstanceNorm++ or a given scale
// and shift with the ELU that follows. PyTorch takes a third of a training step for these; its convolutions are near the CPU's peak already.
// Compiled and called by fused.py. x is [images][pixels][channels]; statistics and parameters are f32.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

constexpr float EPS = 1e-5f;
constexpr int LARGEST = 1024; // channels

struct Bf16 {
    uint16_t bits;
};

inline float get(float x) { return x; }
inline float get(Bf16 x) {
    uint32_t u = uint32_t(x.bits) << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
inline void put(float &to, float x) { to = x; }
inline void put(Bf16 &to, float x) { // to the nearest, ties to even
    uint32_t u;
    memcpy(&u, &x, 4);
    to.bits = uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

// exp(x) of x <= 0, within 2e-7 relative down to exp(-87); a polynomial, so that the compiler can make vectors of it.
inline float exp_negative(float x) {
    x = x < -87.f ? -87.f : x;
    float n = std::nearbyintf(x * 1.44269504f);
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.f + r * (1.f + r * (0.5f + r * (0.16666667f + r * (0.041666638f + r * (0.0083334f + r * 0.00139f)))));
    int32_t bits = (int32_t(n) + 127) << 23;
    float scale;
    memcpy(&scale, &bits, 4);
    return p * scale;
}
inline float elu(float x) {
    float below = exp_negative(x < 0.f ? x : 0.f) - 1.f;
    return x > 0.f ? x : below;
}
// ELU's slope, from what ELU gave.
inline float slope(float y) { return y > 0.f ? 1.f : y + 1.f; }

template <class T> void elu_forward(const T *x, T *__restrict y, long n) {
    for (long i = 0; i < n; i++) put(y[i], elu(get(x[i])));
}

template <class T> void elu_backward(const T *y, const T *dy, T *__restrict dx, long n) {
    for (long i = 0; i < n; i++) put(dx[i], get(dy[i]) * slope(get(y[i])));
}

// What InstanceNorm++ knows of one image: x's mean and 1/deviation per channel, and the means normalised among each other.
struct Saved {
    float *mean, *inverse, *mean_hat, *spread; // spread: 1/deviation of the means, one number an image
};

// Sums over the pixels for W neighbouring channels at a time, so that they stay in registers. `add(i, k, a, b)` adds what
// element i, of channel k, gives to either sum.
template <int W, class Add> inline void sums_of(long pixels, int c, int from, float *first, float *second, Add add) {
    float a[W] = {}, b[W] = {};
    for (long p = 0; p < pixels; p++)
        for (int j = 0; j < W; j++) add(p * c + from + j, from + j, a[j], b[j]);
    for (int j = 0; j < W; j++) first[from + j] = a[j], second[from + j] = b[j];
}
template <class Add> inline void sums(long pixels, int c, float *first, float *second, Add add) {
    int k = 0;
    for (; k + 16 <= c; k += 16) sums_of<16>(pixels, c, k, first, second, add);
    for (; k + 8 <= c; k += 8) sums_of<8>(pixels, c, k, first, second, add);
    for (; k < c; k++) sums_of<1>(pixels, c, k, first, second, add);
}

template <class T> void statistics(const T *x, long pixels, int c, Saved s) {
    float sum[LARGEST], square[LARGEST];
    sums(pixels, c, sum, square, [=](long i, int k, float &first, float &second) {
        float d = get(x[i]) - get(x[k]); // differences to one pixel: no cancellation
        first += d;
        second += d * d;
    });
    float centre = 0, variance = 0;
    for (int k = 0; k < c; k++) {
        float d = sum[k] / pixels;
        s.mean[k] = get(x[k]) + d;
        s.inverse[k] = 1 / std::sqrt(std::max(square[k] / pixels - d * d, 0.f) + EPS);
        centre += s.mean[k] / c;
    }
    for (int k = 0; k < c; k++) variance += (s.mean[k] - centre) * (s.mean[k] - centre) / (c - 1);
    *s.spread = 1 / std::sqrt(variance + EPS);
    for (int k = 0; k < c; k++) s.mean_hat[k] = (s.mean[k] - centre) * *s.spread;
}

template <class T>
void norm_elu_forward(const T *x, const float *alpha, const float *gamma, const float *beta, T *__restrict y, long pixels,
                      int c, Saved s) {
    statistics(x, pixels, c, s);
    float scale[LARGEST], shift[LARGEST];
    for (int k = 0; k < c; k++) {
        scale[k] = gamma[k] * s.inverse[k];
        shift[k] = gamma[k] * (alpha[k] * s.mean_hat[k]) + beta[k] - s.mean[k] * scale[k];
    }
    for (long p = 0; p < pixels; p++)
        for (int k = 0; k < c; k++) put(y[p * c + k], elu(get(x[p * c + k]) * scale[k] + shift[k]));
}

template <class T>
void norm_elu_backward(const T *x, const T *y, const T *dy, const float *alpha, const float *gamma, T *__restrict dx,
                       float *d_alpha, float *d_gamma, float *d_beta, long pixels, int c, Saved s) {
    float sum[LARGEST], product[LARGEST]; // over pixels, of dz and of dz times x normalised
    sums(pixels, c, sum, product, [=](long i, int k, float &first, float &second) {
        float dz = get(dy[i]) * slope(get(y[i]));
        first += dz;
        second += dz * (get(x[i]) - s.mean[k]);
    });
    float to_means[LARGEST], centre = 0, along = 0;
    for (int k = 0; k < c; k++) {
        product[k] *= s.inverse[k];
        d_gamma[k] += product[k] + alpha[k] * s.mean_hat[k] * sum[k];
        d_alpha[k] += gamma[k] * s.mean_hat[k] * sum[k];
        d_beta[k] += sum[k];
        to_means[k] = gamma[k] * alpha[k] * sum[k];
        centre += to_means[k] / c;
        along += to_means[k] * s.mean_hat[k] / (c - 1);
    }
    float scale[LARGEST], slope_of_x[LARGEST], shift[LARGEST]; // dx = scale dz + slope_of_x x + shift
    for (int k = 0; k < c; k++) {
        float d_mean = *s.spread * (to_means[k] - centre - s.mean_hat[k] * along);
        scale[k] = gamma[k] * s.inverse[k];
        slope_of_x[k] = -scale[k] * s.inverse[k] * product[k] / pixels;
        shift[k] = (d_mean - scale[k] * sum[k]) / pixels - slope_of_x[k] * s.mean[k];
    }
    for (long p = 0; p < pixels; p++)
        for (int k = 0; k < c; k++) {
            long i = p * c + k;
            float dz = get(dy[i]) * slope(get(y[i]));
            put(dx[i], scale[k] * dz + slope_of_x[k] * get(x[i]) + shift[k]);
        }
}

// Of one image; `terms` holds a scale and then a shift for each channel, `d_terms` gets their gradients.
template <class T> void affine_elu_forward(const T *x, const float *terms, T *__restrict y, long pixels, int c) {
    for (long p = 0; p < pixels; p++)
        for (int k = 0; k < c; k++) put(y[p * c + k], elu(get(x[p * c + k]) * terms[k] + terms[c + k]));
}

template <class T>
void affine_elu_backward(const T *x, const T *y, const T *dy, const float *terms, T *__restrict dx, float *d_terms, long pixels, int c) {
    sums(pixels, c, d_terms + c, d_terms, [=](long i, int, float &shift, float &scale) {
        float dz = get(dy[i]) * slope(get(y[i]));
        shift += dz;
        scale += dz * get(x[i]);
    });
    for (long p = 0; p < pixels; p++)
        for (int k = 0; k < c; k++) put(dx[p * c + k], terms[k] * get(dy[p * c + k]) * slope(get(y[p * c + k])));
}

// The largest of 5x5 around each pixel, and which it was (row 0 to 4 times 5, plus column): first along rows, then along columns.
template <class T> void max_pool_forward(const T *x, T *y, uint8_t *which, int height, int width, int c) {
    std::vector<float> best(size_t(height) * width * c);
    std::vector<int32_t> column(best.size());
    for (int i = 0; i < height; i++)
        for (int j = 0; j < width; j++) {
            float *b = &best[(size_t(i) * width + j) * c];
            int32_t *w = &column[(size_t(i) * width + j) * c];
            for (int k = 0; k < c; k++) b[k] = -INFINITY, w[k] = 0;
            for (int t = std::max(0, 2 - j); t < std::min(5, width + 2 - j); t++) {
                const T *from = x + (long(i) * width + j + t - 2) * c;
                for (int k = 0; k < c; k++) {
                    float v = get(from[k]);
                    w[k] = v > b[k] ? t : w[k];
                    b[k] = v > b[k] ? v : b[k];
                }
            }
        }
    float b[LARGEST];
    int32_t w[LARGEST];
    for (int i = 0; i < height; i++)
        for (int j = 0; j < width; j++) {
            for (int k = 0; k < c; k++) b[k] = -INFINITY, w[k] = 0;
            for (int t = std::max(0, 2 - i); t < std::min(5, height + 2 - i); t++) {
                size_t from = (size_t(i + t - 2) * width + j) * c;
                for (int k = 0; k < c; k++) {
                    float v = best[from + k];
                    w[k] = v > b[k] ? 5 * t + column[from + k] : w[k];
                    b[k] = v > b[k] ? v : b[k];
                }
            }
            size_t to = (size_t(i) * width + j) * c;
            for (int k = 0; k < c; k++) put(y[to + k], b[k]), which[to + k] = uint8_t(w[k]);
        }
}

template <class T> void max_pool_backward(const T *dy, const uint8_t *which, T *dx, int height, int width, int c) {
    std::vector<float> sum(size_t(height) * width * c);
    for (int i = 0; i < height; i++)
        for (int j = 0; j < width; j++)
            for (int k = 0; k < c; k++) {
                size_t o = (size_t(i) * width + j) * c + k;
                int row = i + which[o] / 5 - 2, column = j + which[o] % 5 - 2;
                sum[(size_t(row) * width + column) * c + k] += get(dy[o]);
            }
    for (size_t o = 0; o < sum.size(); o++) put(dx[o], sum[o]);
}

Saved of_image(float *saved, long n, int c) {
    float *s = saved + n * (3 * c + 1);
    return {s, s + c, s + 2 * c, s + 3 * c};
}

} // namespace

#define ENTRY_POINTS(T, NAME)                                                                                                  \
    extern "C" void elu_forward_##NAME(const T *x, T *y, long n) { elu_forward(x, y, n); }                                     \
    extern "C" void elu_backward_##NAME(const T *y, const T *dy, T *dx, long n) { elu_backward(y, dy, dx, n); }                \
    extern "C" void norm_elu_forward_##NAME(const T *x, const float *alpha, const float *gamma, const float *beta, T *y,       \
                                            float *saved, long images, long pixels, int c) {                                   \
        for (long n = 0; n < images; n++)                                                                                      \
            norm_elu_forward(x + n * pixels * c, alpha, gamma, beta, y + n * pixels * c, pixels, c, of_image(saved, n, c));    \
    }                                                                                                                          \
    extern "C" void norm_elu_backward_##NAME(const T *x, const T *y, const T *dy, const float *alpha, const float *gamma,      \
                                             float *saved, T *dx, float *d_alpha, float *d_gamma, float *d_beta, long images,  \
                                             long pixels, int c) {                                                             \
        for (long n = 0; n < images; n++) {                                                                                    \
            long o = n * pixels * c;                                                                                           \
            norm_elu_backward(x + o, y + o, dy + o, alpha, gamma, dx + o, d_alpha, d_gamma, d_beta, pixels, c,                 \
                              of_image(saved, n, c));                                                                          \
        }                                                                                                                      \
    }                                                                                                                          \
    extern "C" void affine_elu_forward_##NAME(const T *x, const float *terms, T *y, long images, long pixels, int c) {         \
        for (long n = 0; n < images; n++)                                                                                      \
            affine_elu_forward(x + n * pixels * c, terms + n * 2 * c, y + n * pixels * c, pixels, c);                          \
    }                                                                                                                          \
    extern "C" void affine_elu_backward_##NAME(const T *x, const T *y, const T *dy, const float *terms, T *dx, float *d_terms, \
                                               long images, long pixels, int c) {                                              \
        for (long n = 0, o = 0; n < images; n++, o += pixels * c)                                                              \
            affine_elu_backward(x + o, y + o, dy + o, terms + n * 2 * c, dx + o, d_terms + n * 2 * c, pixels, c);              \
    }                                                                                                                          \
    extern "C" void max_pool_forward_##NAME(const T *x, T *y, uint8_t *which, long images, int height, int width, int c) {      \
        for (long n = 0, o = 0; n < images; n++, o += long(height) * width * c)                                                \
            max_pool_forward(x + o, y + o, which + o, height, width, c);                                                       \
    }                                                                                                                          \
    extern "C" void max_pool_backward_##NAME(const T *dy, const uint8_t *which, T *dx, long images, int height, int width,     \
                                             int c) {                                                                          \
        for (long n = 0, o = 0; n < images; n++, o += long(height) * width * c)                                                \
            max_pool_backward(dy + o, which + o, dx + o, height, width, c);                                                    \
    }

ENTRY_POINTS(float, f32)
ENTRY_POINTS(Bf16, bf16)
