// What signatures.py puts behind a source, to have the compiler say the types of its kernels.
#line 1 "virtualgpu_signature"
namespace virtualgpu_signature {
template <class T> struct kind { static constexpr char value = '?'; };
#define VIRTUALGPU_KIND(T, K) template <> struct kind<T> { static constexpr char value = K; };
VIRTUALGPU_KIND(bool, 'b') VIRTUALGPU_KIND(char, 'i') VIRTUALGPU_KIND(signed char, 'i')
VIRTUALGPU_KIND(short, 'i') VIRTUALGPU_KIND(int, 'i') VIRTUALGPU_KIND(long, 'i')
VIRTUALGPU_KIND(long long, 'i') VIRTUALGPU_KIND(unsigned char, 'u')
VIRTUALGPU_KIND(unsigned short, 'u') VIRTUALGPU_KIND(unsigned int, 'u')
VIRTUALGPU_KIND(unsigned long, 'u') VIRTUALGPU_KIND(unsigned long long, 'u')
VIRTUALGPU_KIND(float, 'f') VIRTUALGPU_KIND(double, 'f')
template <class T> struct plain { using type = T; };
template <class T> struct plain<const T> { using type = T; };
template <class T> struct plain<volatile T> { using type = T; };
template <class T> struct plain<const volatile T> { using type = T; };
template <class T> struct size { static constexpr int value = sizeof(T); };
template <> struct size<void> { static constexpr int value = 0; };
template <class T> struct one {
    static constexpr int pointer = 0, letter = kind<T>::value, bytes = size<T>::value;
};
template <class T> struct one<T *> {
    using pointee = typename plain<T>::type;
    static constexpr int pointer = 1, letter = kind<pointee>::value, bytes = size<pointee>::value;
};
template <class... A> struct table { int values[3 * sizeof...(A) + 1]; };
template <class F> struct signature;
template <class... A> struct signature<void (*)(A...)> {
    static constexpr __device__ table<A...> get()
    { return table<A...>{{int(sizeof...(A)), (one<A>::pointer * 65536 * 256
                          + one<A>::letter * 65536 + (one<A>::bytes & 65535))...}}; }
};
}
