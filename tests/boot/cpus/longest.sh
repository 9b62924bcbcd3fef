#!/bin/sh
# time limit: 800
# in pairs
# No system call of these, the heaviest of their kinds, keeps a CPU for more than two million instructions without giving way.
#
# /proc/latency tells, with a tick ten times a millisecond. Time is counted in instructions, two nanoseconds each, so that it is the kernel's and not the
# host's. `longest` without names of cases makes more of them.
. tests/boot/common
case $DARTER_KERNEL in linux) skip 'only Darter has /proc/latency' ;; esac
cases='unmap protect dont_need map_over move_touched move_leaves fork_leaves empty_tables lock_pieces exec_sparse mincore_
    truncate_ drop_large scattered exit_files close_range_ fork_files_close grow_table far_file fork_table large_directory poll_files kill_group arguments tiny_vectors queued exit_timers exec_timers
    due_timers wake_futex split_bucket kill_threads epoll_close closes watch_pipe watch_hangup watch_timer signal_files map_files watch_drop watch_epoll wake_readers signal_waiters signal_threads signal_crowd thread_sums
    ignore_queued deep_folder long_links robust socket_lookers socket_waiters socket_cycles socket_backlog socket_list socket_queue attributes long_attributes access_lists judged_by_list many_filters
    long_filters filters_of_all'
build tests tests
run --deterministic --cpus 1 --memory 1G --append latency --timeout 480 --add "$TARGET/tests/abi/tools/longest:/abi/longest" -- \
    sh -c "cd /tmp; chmod 1777 .; exec /abi/longest 4000 $(echo $cases)" </dev/null
[ "$rc" = 0 ] || echo "$out"
expect status "$rc" 0
# Twenty thousand children need memory for as many kernel stacks.
run --deterministic --cpus 1 --memory 3G --append latency --timeout 280 --add "$TARGET/tests/abi/tools/longest:/abi/longest" -- \
    sh -c "cd /tmp; chmod 1777 .; LONGEST_CHILDREN=20000 exec /abi/longest 4000 wait_group wait_crowd kill_crowd write_program leave_children" </dev/null
[ "$rc" = 0 ] || echo "$out"
expect 'status with many children' "$rc" 0
run --deterministic --cpus 1 --memory 3G --append latency --timeout 280 --add "$TARGET/tests/abi/tools/longest:/abi/longest" -- \
    sh -c "cd /tmp; LONGEST_THREADS=20000 exec /abi/longest 4000 split_bucket" </dev/null
[ "$rc" = 0 ] || echo "$out"
expect 'status with many threads' "$rc" 0
exit $status
