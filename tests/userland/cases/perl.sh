# perl: processes, sockets of Unix, files, sorting, regular expressions.
# needs: perl
mkdir -p /tmp/case && cd /tmp/case || exit
perl -we '
use strict; use Socket; use IO::Handle; use POSIX qw(:sys_wait_h); use Fcntl qw(:flock :DEFAULT); use Time::HiRes qw(alarm sleep);
my %h; $h{$_ % 97} += $_ for 1 .. 20000; print join(",", map { "$_=$h{$_}" } (sort { $a <=> $b } keys %h)[0 .. 4]), "\n";
socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die; $a->autoflush; $b->autoflush;
if (!fork) { close $a; while (<$b>) { print $b uc } exit 7 } close $b; print $a "hello\n"; print scalar <$a>; shutdown $a, 1; wait; print $? >> 8, "\n";
open my $f, "+>", "locked" or die; flock $f, LOCK_EX; if (!fork) { open my $g, "<", "locked"; print flock($g, LOCK_EX | LOCK_NB) ? "got\n" : "busy\n"; exit } wait;
local $SIG{ALRM} = sub { die "alarm\n" }; eval { alarm 0.2; sleep 5 }; print $@;
my @k = map { my $n = $_; fork // die or do { exit $n } } 1 .. 8; my %s; while ((my $p = waitpid -1, 0) > 0) { $s{$? >> 8}++ } print join(" ", sort keys %s), "\n";
pipe my $r, my $w; if (!fork) { close $r; print $w "x" x 200000; exit } close $w; local $/; print length(<$r>), "\n"; wait;
print "$1-$2\n" if "foo123bar" =~ /([a-z]+)(\d+)/; printf "%s\n", join ",", unpack "A1 x1 A1", "a-b"; my $t = `echo sub; exit 3`; print $t, $? >> 8, "\n"; symlink "x", "l"; print readlink "l", "\n"; print -l "l" ? "link\n" : "";'
