;; A command for tests: `tool.wat OP [A [B]]`. It prints "alive", does one thing, and ends with WASI's error number.
(module $tool
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $environ_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_get" (func $fd_prestat_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_dir_name" (func $fd_prestat_dir_name (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_readdir" (func $fd_readdir (param i32 i32 i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_unlink_file" (func $path_unlink_file (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_create_directory" (func $path_create_directory (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_remove_directory" (func $path_remove_directory (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_rename" (func $path_rename (param i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_link" (func $path_link (param i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_symlink" (func $path_symlink (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_filestat_set_times"
    (func $path_filestat_set_times (param i32 i32 i32 i32 i64 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll_oneoff (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "sock_shutdown" (func $sock_shutdown (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (memory (export "memory") 4)
  (global $here (mut i32) (i32.const 3))
  (data (i32.const 0) "alive\0a")
  ;; 16: iovec; 32: results; 1024: pointers of arguments; 4096: their texts; 65536: a buffer of 64 KiB

  (func $length (param $text i32) (result i32) (local $end i32)
    (local.set $end (local.get $text))
    (block $done (loop $next
      (br_if $done (i32.eqz (i32.load8_u (local.get $end))))
      (local.set $end (i32.add (local.get $end) (i32.const 1)))
      (br $next)))
    (i32.sub (local.get $end) (local.get $text)))

  (func $write (param $fd i32) (param $text i32) (param $length i32) (result i32)
    (i32.store (i32.const 16) (local.get $text))
    (i32.store (i32.const 20) (local.get $length))
    (call $fd_write (local.get $fd) (i32.const 16) (i32.const 1) (i32.const 32)))

  (func $argument (param $index i32) (result i32)
    (i32.load (i32.add (i32.const 1024) (i32.mul (local.get $index) (i32.const 4)))))

  (func $end (param $status i32)
    (if (local.get $status) (then (call $proc_exit (local.get $status)))))

  ;; The directory that is called "."
  (func $find_here (local $fd i32)
    (local.set $fd (i32.const 3))
    (block $done (loop $next
      (br_if $done (call $fd_prestat_get (local.get $fd) (i32.const 32)))
      (drop (call $fd_prestat_dir_name (local.get $fd) (i32.const 65536) (i32.load (i32.const 36))))
      (if (i32.and (i32.eq (i32.load (i32.const 36)) (i32.const 1))
                   (i32.eq (i32.load8_u (i32.const 65536)) (i32.const 46)))
        (then (global.set $here (local.get $fd))))
      (local.set $fd (i32.add (local.get $fd) (i32.const 1)))
      (br $next))))

  (func $open (param $how i32) (param $rights i64) (param $flags i32) (result i32)
    (call $end (call $path_open (global.get $here) (i32.const 1)
      (call $argument (i32.const 2)) (call $length (call $argument (i32.const 2)))
      (local.get $how) (local.get $rights) (local.get $rights) (local.get $flags) (i32.const 40)))
    (i32.load (i32.const 40)))

  (func $read_all (local $fd i32)
    (local.set $fd (call $open (i32.const 0) (i64.const 2) (i32.const 0)))
    (block $done (loop $next
      (i32.store (i32.const 16) (i32.const 65536))
      (i32.store (i32.const 20) (i32.const 65536))
      (call $end (call $fd_read (local.get $fd) (i32.const 16) (i32.const 1) (i32.const 36)))
      (br_if $done (i32.eqz (i32.load (i32.const 36))))
      (call $end (call $write (i32.const 1) (i32.const 65536) (i32.load (i32.const 36))))
      (br $next))))

  (func $write_text (param $how i32) (local $text i32)
    (local.set $text (call $argument (i32.const 3)))
    (call $end (call $write (call $open (local.get $how) (i64.const 64) (i32.const 0))
      (local.get $text) (call $length (local.get $text)))))

  (func $list
    (call $end (call $fd_readdir (call $open (i32.const 2) (i64.const 0) (i32.const 0))
      (i32.const 65536) (i32.const 65536) (i64.const 0) (i32.const 36)))
    (call $end (call $write (i32.const 1) (i32.const 65536) (i32.load (i32.const 36)))))

  (func $environment
    (call $end (call $environ_sizes_get (i32.const 32) (i32.const 36)))
    (call $end (call $environ_get (i32.const 70000) (i32.const 80000)))
    (call $end (call $write (i32.const 1) (i32.const 80000) (i32.load (i32.const 36)))))

  (func $spin (loop $again (br $again)))
  (func $recurse (param i32) (result i32) (i32.add (i32.const 1) (call $recurse (local.get 0))))
  (func $fall_over unreachable)
  (func $inner (call $fall_over))
  (func $flood (loop $again (call $end (call $write (i32.const 1) (i32.const 65536) (i32.const 65536))) (br $again)))
  (func $open_many (loop $again (drop (call $open (i32.const 0) (i64.const 2) (i32.const 0))) (br $again)))
  ;; Pages until there are no more, then how many there are, as a letter beyond "A".
  (func $grow
    (loop $again (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
    (i32.store8 (i32.const 65536) (i32.add (i32.const 65) (memory.size)))
    (call $end (call $write (i32.const 1) (i32.const 65536) (i32.const 1))))
  (func $grow_and_fall
    (loop $again (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
    unreachable)
  ;; An hour
  (func $sleep
    (i32.store (i32.const 200016) (i32.const 1))
    (i64.store (i32.const 200024) (i64.const 3600000000000))
    (call $end (call $poll_oneoff (i32.const 200000) (i32.const 66000) (i32.const 1) (i32.const 32))))
  (func $numbers
    (call $end (call $random_get (i32.const 65536) (i32.const 16)))
    (call $end (call $clock_time_get (i32.const 0) (i64.const 1) (i32.const 65552)))
    (call $end (call $write (i32.const 1) (i32.const 65536) (i32.const 24))))
  (func $fill_file (local $fd i32)
    (local.set $fd (call $open (i32.const 1) (i64.const 64) (i32.const 0)))
    (loop $again (call $end (call $write (local.get $fd) (i32.const 65536) (i32.const 65536))) (br $again)))

  (func $do (param $op i32) (local $a i32) (local $b i32)
    (local.set $a (call $argument (i32.const 2)))
    (local.set $b (call $argument (i32.const 3)))
    (if (i32.eq (local.get $op) (i32.const 114)) (then (call $read_all) (return))) ;; r
    (if (i32.eq (local.get $op) (i32.const 119)) (then (call $write_text (i32.const 9)) (return))) ;; w
    (if (i32.eq (local.get $op) (i32.const 97)) (then (call $write_text (i32.const 0)) (return))) ;; a
    (if (i32.eq (local.get $op) (i32.const 108)) (then (call $list) (return))) ;; l
    (if (i32.eq (local.get $op) (i32.const 101)) (then (call $environment) (return))) ;; e
    (if (i32.eq (local.get $op) (i32.const 105)) (then (call $spin) (return))) ;; i
    (if (i32.eq (local.get $op) (i32.const 82)) (then (drop (call $recurse (i32.const 0))) (return))) ;; R
    (if (i32.eq (local.get $op) (i32.const 120)) (then (call $inner) (return))) ;; x
    (if (i32.eq (local.get $op) (i32.const 112)) (then (call $flood) (return))) ;; p
    (if (i32.eq (local.get $op) (i32.const 111)) (then (call $open_many) (return))) ;; o
    (if (i32.eq (local.get $op) (i32.const 103)) (then (call $grow) (return))) ;; g
    (if (i32.eq (local.get $op) (i32.const 71)) (then (call $grow_and_fall) (return))) ;; G
    (if (i32.eq (local.get $op) (i32.const 122)) (then (call $sleep) (return))) ;; z
    (if (i32.eq (local.get $op) (i32.const 99)) (then (call $numbers) (return))) ;; c
    (if (i32.eq (local.get $op) (i32.const 102)) (then (call $fill_file) (return))) ;; f
    (if (i32.eq (local.get $op) (i32.const 117)) (then ;; u
      (call $end (call $path_unlink_file (global.get $here) (local.get $a) (call $length (local.get $a)))) (return)))
    (if (i32.eq (local.get $op) (i32.const 109)) (then ;; m
      (call $end (call $path_create_directory (global.get $here) (local.get $a) (call $length (local.get $a)))) (return)))
    (if (i32.eq (local.get $op) (i32.const 100)) (then ;; d
      (call $end (call $path_remove_directory (global.get $here) (local.get $a) (call $length (local.get $a)))) (return)))
    (if (i32.eq (local.get $op) (i32.const 116)) (then ;; t
      (call $end (call $path_filestat_set_times (global.get $here) (i32.const 0)
        (local.get $a) (call $length (local.get $a)) (i64.const 0) (i64.const 1000000000) (i32.const 5))) (return)))
    (if (i32.eq (local.get $op) (i32.const 110)) (then ;; n
      (call $end (call $path_rename (global.get $here) (local.get $a) (call $length (local.get $a))
        (global.get $here) (local.get $b) (call $length (local.get $b)))) (return)))
    (if (i32.eq (local.get $op) (i32.const 104)) (then ;; h
      (call $end (call $path_link (global.get $here) (i32.const 0) (local.get $a) (call $length (local.get $a))
        (global.get $here) (local.get $b) (call $length (local.get $b)))) (return)))
    (if (i32.eq (local.get $op) (i32.const 115)) (then ;; s
      (call $end (call $path_symlink (local.get $a) (call $length (local.get $a))
        (global.get $here) (local.get $b) (call $length (local.get $b)))) (return)))
    (if (i32.eq (local.get $op) (i32.const 78)) (then ;; N
      (call $end (call $sock_shutdown (i32.const 3) (i32.const 0))) (return)))
    (call $proc_exit (i32.const 99)))

  (func (export "_start")
    (call $end (call $args_sizes_get (i32.const 32) (i32.const 36)))
    (call $end (call $args_get (i32.const 1024) (i32.const 4096)))
    (call $find_here)
    (call $end (call $write (i32.const 1) (i32.const 0) (i32.const 6)))
    (call $do (i32.load8_u (call $argument (i32.const 1))))))
