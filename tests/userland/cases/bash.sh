# bash: substituted processes, pipes, here-documents, jobs, traps, arrays, coprocesses.
# needs: bash
mkdir -p /tmp/case && cd /tmp/case || exit
exec bash -c '
diff <(printf "a\nb\n") <(printf "a\nc\n"); echo "status $?"
paste <(seq 5) <(seq 5 | tac) <(seq 5 | sort -R | sort -n)
tee >(wc -c >one) >(md5sum >two) < <(seq 1000) | wc -l
sleep 0.5; cat one two
seq 3 | (read a; read b; echo "$b$a")
cat <<< "here $((6 * 7))"
trap "echo trapped" USR1; kill -USR1 $$
(trap "echo bye" EXIT; exit 3); echo $?
set -o pipefail; false | true; echo $?
sleep 0.1 & wait $!; echo "waited $?"
coproc C { while read l; do echo "<$l>"; done; }
echo hello >&${C[1]}; read x <&${C[0]}; echo "$x"; kill $C_PID; wait $C_PID 2>/dev/null; echo $?
declare -A m=([a]=1 [b]=2); for k in $(printf "%s\n" "${!m[@]}" | sort); do echo "$k=${m[$k]}"; done
echo err >/dev/stderr; echo out >/dev/stdout; echo "echo from stdin" | sh /dev/stdin
mapfile -t lines < <(seq 4); echo "${#lines[@]} ${lines[-1]}"
ulimit -n; umask; printf "%q\n" "a b"
for i in 1 2 3 4 5 6 7 8; do (for j in $(seq 50); do :; done; echo $i) & done | sort -n | tr "\n" " "; echo
timeout 1 sleep 10; echo $?
'
