# make -j4 with gcc, g++ and tcc: programs, static and shared libraries, and that what they make runs.
# needs: make gcc g++ tcc
mkdir -p /tmp/case && cd /tmp/case || exit
for i in $(seq 24); do printf '#include <stdio.h>\n#include <string.h>\nint f%d(int x) { char b[32]; snprintf(b, 32, "%%d", x + %d); return strlen(b); }\n' $i $i >f$i.c; done
{ for i in $(seq 24); do echo "int f$i(int);"; done; echo '#include <stdio.h>'; echo 'int main(void) { int s = 0;'; for i in $(seq 24); do echo "s += f$i(1$i);"; done; printf '%s\n' 'printf("%d\n", s); return s & 7; }'; } >m.c
cat >v.cc <<'X'
#include <algorithm>
#include <iostream>
#include <map>
#include <thread>
#include <vector>
int main() { std::vector<std::thread> t; std::map<int, int> m; long s[4] = {};
for (int i = 0; i < 4; i++) t.emplace_back([i, &s] { for (long j = 0; j < 100000; j++) s[i] += j * i; });
for (auto &x : t) x.join(); for (int i = 0; i < 4; i++) m[i] = s[i] % 1000; for (auto [k, v] : m) std::cout << k << ' ' << v << '\n';
try { throw 42; } catch (int e) { std::cout << e << '\n'; } }
X
cat >Makefile <<'X'
OBJ = $(patsubst %.c,%.$(CC).o,$(wildcard f*.c))
all: prog.$(CC) so.$(CC)
%.$(CC).o: %.c
	$(CC) -c -fPIC -o $@ $<
lib.$(CC).a: $(OBJ)
	ar rcs $@ $^
prog.$(CC): m.c lib.$(CC).a
	$(CC) -o $@ $^
lib$(CC).so: $(OBJ)
	$(CC) -shared -o $@ $^
so.$(CC): m.c lib$(CC).so
	$(CC) -o $@ m.c ./lib$(CC).so
X
for cc in gcc tcc; do
    make -s -j4 CC=$cc; echo "make $?"
    ./prog.$cc; echo "status $?"; LD_LIBRARY_PATH=. ./so.$cc; echo "status $?"; make -s -j4 CC=$cc -q; echo "again $?"
done
g++ -O2 -std=c++17 -pthread -o v v.cc && ./v
gcc -O2 -flto -o lto f1.c f2.c -x c - <<'X' && ./lto; echo "lto $?"
int f1(int), f2(int); int main(void) { return f1(1000) * 10 + f2(5); }
X
gcc -fsanitize=address -g -include stdlib.h -o asan -x c - <<'X' && ./asan 2>&1 | grep -c 'heap-buffer-overflow'
int main(int c, char **v) { char *p = malloc(8); p[8 + c] = 1; return 0; }
X
