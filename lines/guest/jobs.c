/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * An /init that runs the commands of /jobs one after another, a line each, words between blanks. It waits first, because a kernel
 * goes on working for seconds after it has booted.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    static const char *const places[][2] = { { "/dev", "devtmpfs" }, { "/proc", "proc" }, { "/tmp", "tmpfs" } };
    for (int i = 0; i < 3; i++) {
        mkdir(places[i][0], 0755);
        mount(places[i][1], places[i][0], places[i][1], 0, 0);
    }
    int console = open("/dev/console", O_RDWR);
    if (console >= 0)
        for (int fd = 0; fd < 3; fd++)
            dup2(console, fd);
    FILE *jobs = fopen("/jobs", "r");
    char text[1024], *word[64];
    int status, number = 0;
    for (sleep(20); jobs && fgets(text, sizeof text, jobs);) {
        int words = 0;
        printf("job %s", text);
        fflush(stdout);
        for (char *at = strtok(text, " \n"); at && words < 63; at = strtok(0, " \n"))
            word[words++] = at;
        word[words] = 0;
        if (words == 0)
            continue;
        char window[32];
        snprintf(window, sizeof window, "BENCH_WINDOW=%04d", ++number);
        pid_t child = fork();
        if (child == 0) {
            putenv(window);
            execv(word[0], word);
            perror(word[0]);
            _exit(127);
        }
        waitpid(child, &status, 0);
        if (status)
            printf("failed with %d\n", status);
    }
    printf("done\n");
    fflush(stdout);
    reboot(RB_POWER_OFF);
    return 0;
}
