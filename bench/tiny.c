/* tiny: the smallest program there is, for forkexec -x. It only exits. */
#include <unistd.h>

int main(void)
{
	_exit(0);
}
