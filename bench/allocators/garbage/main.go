// garbage: goroutines that make garbage on all CPUs, each on a thread of its own that is pinned to its CPU. What the runtime does beside
// them (collecting, giving memory back, its clock thread) is part of what is measured, and depends on time.
//
//	garbage list                                a line for each pattern, as alloc's
//	garbage garbage [N] [-c OPS | -s SECONDS] [-w OPS] [-q]
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	list = "garbage 60 Go: trees, a map and slices that are garbage at once, 200 KiB a round"
	// What a round makes.
	depth, entries, slices = 10, 200, 16
)

type node struct {
	left, right *node
	value       uint64
}

// Each task's counter, on lines of its own.
type slot struct {
	_    [128]byte
	ops  uint64
	sink uint64
	_    [128]byte
}

func tree(depth int, value uint64) *node {
	if depth == 0 {
		return &node{value: value}
	}
	return &node{tree(depth-1, 2*value), tree(depth-1, 2*value+1), value}
}

func (n *node) sum() uint64 {
	if n == nil {
		return 0
	}
	return n.value + n.left.sum() + n.right.sum()
}

// What a tree, a map or a slice holds is looked at: lost or foreign memory ends the program.
func round(seed uint64) uint64 {
	root := tree(depth, 1)
	names := make(map[string]uint64)
	for i := uint64(0); i < entries; i++ {
		names[strconv.FormatUint(seed+i, 10)] = i
	}
	var sum uint64
	for i := 0; i < slices; i++ {
		bytes := make([]byte, 4096+i*512)
		for at := 0; at < len(bytes); at += 512 {
			if bytes[at] != 0 {
				fail("a new slice that is not zero")
			}
			bytes[at] = byte(i)
		}
		sum += uint64(bytes[512])
	}
	for _, value := range names {
		sum += value
	}
	const nodes = 1<<(depth+1) - 1
	if wanted := uint64(nodes*(nodes+1)/2 + entries*(entries-1)/2 + slices*(slices-1)/2); root.sum()+sum != wanted {
		fail("lost or foreign memory")
	}
	return root.value
}

func fail(what string) {
	fmt.Fprintln(os.Stderr, "garbage:", what)
	os.Exit(1)
}

// The index-th CPU.
func pin(index int) {
	var mask [16]uint64
	mask[index/64] = 1 << (index % 64)
	size, at := unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask))
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, size, at); errno != 0 {
		fail("cannot pin: " + errno.Error())
	}
}

type options struct {
	tasks     int
	ops, warm uint64
	seconds   float64
}

func read(words []string) options {
	opt := options{tasks: runtime.NumCPU(), warm: 30, seconds: 5}
	for at := 0; at < len(words); at++ {
		word, value := words[at], ""
		if at+1 < len(words) {
			value = words[at+1]
		}
		var err error
		switch word {
		case "-q":
			continue
		case "-c":
			opt.ops, err = strconv.ParseUint(value, 10, 64)
			at++
		case "-w":
			opt.warm, err = strconv.ParseUint(value, 10, 64)
			at++
		case "-s":
			opt.seconds, err = strconv.ParseFloat(value, 64)
			at++
		default:
			opt.tasks, err = strconv.Atoi(word)
		}
		if err != nil || opt.tasks < 1 {
			fail("cannot read " + word + " " + value)
		}
	}
	return opt
}

func environment(name string) uint64 {
	value, _ := strconv.ParseUint(os.Getenv(name), 10, 64)
	return value
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "list" {
		fmt.Println(list)
		return
	}
	if len(os.Args) < 2 || os.Args[1] != "garbage" {
		fmt.Fprintln(os.Stderr, "usage: garbage list | garbage [N] [-c OPS | -s SECONDS] [-w OPS] [-q]")
		os.Exit(2)
	}
	opt := read(os.Args[2:])
	if limit := environment("BENCH_LIMIT"); limit > 0 {
		time.AfterFunc(time.Duration(limit)*time.Second, func() { fail("it did not end in time") })
	}
	window := environment("BENCH_WINDOW")
	markWatch()

	var ready, done, gone sync.WaitGroup
	var stop atomic.Bool
	start, leave := make(chan struct{}), make(chan struct{})
	slots := make([]slot, opt.tasks)
	ready.Add(opt.tasks)
	done.Add(opt.tasks)
	gone.Add(opt.tasks)
	for index := range slots {
		go func(index int) {
			runtime.LockOSThread()
			pin(index)
			own := &slots[index]
			for i := uint64(0); i < opt.warm; i++ {
				own.sink += round(i)
			}
			ready.Done()
			<-start
			markOpen(window)
			for !stop.Load() && (opt.ops == 0 || own.ops < opt.ops) {
				own.sink += round(own.ops)
				own.ops++
			}
			markClose()
			done.Done()
			<-leave
			gone.Done()
		}(index)
	}
	ready.Wait()
	time.Sleep(100 * time.Millisecond)
	began := time.Now()
	close(start)
	if opt.ops == 0 {
		time.Sleep(time.Duration(opt.seconds * float64(time.Second)))
		stop.Store(true)
	}
	done.Wait()
	seconds := time.Since(began).Seconds()
	close(leave)
	gone.Wait()

	var all, most uint64
	least := slots[0].ops
	for index := range slots {
		ops := slots[index].ops
		all += ops
		if ops < least {
			least = ops
		}
		if ops > most {
			most = ops
		}
	}
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	of := func(time syscall.Timeval) float64 { return float64(time.Sec) + float64(time.Usec)/1e6 }
	fmt.Printf("bench=garbage cpus=%d ops=%d seconds=%.6f rate=%.2f min_per_task=%d max_per_task=%d user=%.3f sys=%.3f\n",
		opt.tasks, all, seconds, float64(all)/seconds, least, most, of(used.Utime), of(used.Stime))
}
