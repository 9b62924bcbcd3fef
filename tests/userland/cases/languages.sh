# go build and run, node, java: threads, timers, child processes, files.
# needs: go node java javac
mkdir -p /tmp/case && cd /tmp/case || exit
export HOME=/tmp/case GOCACHE=/tmp/case/go GOFLAGS=-mod=mod GOTOOLCHAIN=local
mkdir g && cd g && cat >m.go <<'X'
package main

import ("fmt"; "os"; "os/exec"; "sync"; "time"; "net")

func main() {
	var wg sync.WaitGroup; c := make(chan int, 10); s := 0
	for i := 0; i < 100; i++ { wg.Add(1); go func(i int) { defer wg.Done(); time.Sleep(time.Millisecond); c <- i }(i) }
	go func() { wg.Wait(); close(c) }()
	for v := range c { s += v }
	fmt.Println(s)
	o, e := exec.Command("echo", "child").Output(); fmt.Print(string(o), e, "\n")
	l, e := net.Listen("unix", "sock"); fmt.Println(e)
	go func() { k, _ := l.Accept(); fmt.Fprintf(k, "over a socket"); k.Close() }()
	k, _ := net.Dial("unix", "sock"); b := make([]byte, 64); n, _ := k.Read(b); fmt.Println(string(b[:n]))
	e = os.WriteFile("f", make([]byte, 1<<20), 0600); i, _ := os.Stat("f"); fmt.Println(e, i.Size(), i.Mode())
}
X
cat >go.mod <<'X'
module m
go 1.20
X
go build -o m . && ./m; echo "go $?"
cd .. && node -e '
const { execFile, fork } = require("child_process"), fs = require("fs"), net = require("net"), { Worker } = require("worker_threads");
execFile("echo", ["child"], (e, o) => { console.log(e, o.trim());
const s = net.createServer(c => c.end("over a socket")).listen("/tmp/case/n", () => net.connect("/tmp/case/n").on("data", d => { console.log(String(d)); s.close();
fs.writeFileSync("x", "y".repeat(1e6)); fs.createReadStream("x").on("data", d => n += d.length).on("end", () => { console.log(n);
new Worker("require(\"worker_threads\").parentPort.postMessage(6 * 7)", { eval: true }).on("message", m => console.log("worker", m)).on("exit", c => console.log("exit", c)) }) })) }); let n = 0;'
echo "node $?"
cat >J.java <<'X'
import java.nio.file.*; import java.util.concurrent.*; import java.util.stream.*; import java.net.*; import java.nio.channels.*; import java.nio.*;
public class J { public static void main(String[] a) throws Exception {
 System.out.println(IntStream.range(0, 1000000).parallel().mapToLong(x -> x % 7).sum());
 var p = Executors.newFixedThreadPool(8); var f = p.submit(() -> 42); System.out.println(f.get()); p.shutdown();
 var q = new ProcessBuilder("sh", "-c", "echo child; exit 3").redirectErrorStream(true).start(); System.out.print(new String(q.getInputStream().readAllBytes())); System.out.println(q.waitFor());
 Files.writeString(Path.of("j"), "text"); System.out.println(Files.readString(Path.of("j")) + Files.size(Path.of("j")));
 var s = UnixDomainSocketAddress.of("js"); var l = ServerSocketChannel.open(StandardProtocolFamily.UNIX).bind(s);
 var c = SocketChannel.open(s); var d = l.accept(); d.write(ByteBuffer.wrap("socket".getBytes())); var b = ByteBuffer.allocate(16); c.read(b); System.out.println(new String(b.array(), 0, b.position()));
 System.gc(); } }
X
java -XX:+UseSerialGC J.java; echo "java $?"; java -XX:+UseG1GC J.java 2>&1 | md5sum
