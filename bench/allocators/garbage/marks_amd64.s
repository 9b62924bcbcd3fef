#include "textflag.h"

// func markOpen(window uint64)
TEXT ·markOpen(SB), NOSPLIT, $0-8
	MOVQ window+0(FP), AX
	BYTE $0x0f; BYTE $0x1f; BYTE $0x80; LONG $0x44415201
	RET

// func markClose()
TEXT ·markClose(SB), NOSPLIT, $0-0
	BYTE $0x0f; BYTE $0x1f; BYTE $0x80; LONG $0x44415202
	RET

// func markWatch()
TEXT ·markWatch(SB), NOSPLIT, $0-0
	BYTE $0x0f; BYTE $0x1f; BYTE $0x80; LONG $0x44415203
	RET
