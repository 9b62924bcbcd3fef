//! Options of calls of System V IPC.
#![forbid(unsafe_code)]

use super::{SMALL, State};
use crate::structs::{MSGINFO, MSQID_DS, SEM_VALUES, SEMID_DS, SEMINFO, SHM_INFO_OUT, SHMID_DS, SHMINFO};
#[allow(clippy::enum_glob_use, reason = "the tables are read by people")]
use crate::{Kind::*, Opt, Set};

sets! {
    SHMGET "shmget flags" choose { }
    flags {
        IPC_CREAT = 0o1000, IPC_EXCL = 0o2000, SHM_HUGETLB = 0o4000 partly "no segment is made of large pages: ENOMEM", SHM_NORESERVE = 0o10000 hint,
        S_IRUSR = 0o400, S_IWUSR = 0o200, S_IXUSR = 0o100, S_IRGRP = 0o40, S_IWGRP = 0o20, S_IXGRP = 0o10, S_IROTH = 4, S_IWOTH = 2, S_IXOTH = 1
    }
    SEMGET "semget flags" choose { }
    flags {
        IPC_CREAT = 0o1000, IPC_EXCL = 0o2000,
        S_IRUSR = 0o400, S_IWUSR = 0o200, S_IXUSR = 0o100, S_IRGRP = 0o40, S_IWGRP = 0o20, S_IXGRP = 0o10, S_IROTH = 4, S_IWOTH = 2, S_IXOTH = 1
    }
    MSGGET "msgget flags" choose { }
    flags {
        IPC_CREAT = 0o1000, IPC_EXCL = 0o2000,
        S_IRUSR = 0o400, S_IWUSR = 0o200, S_IXUSR = 0o100, S_IRGRP = 0o40, S_IWGRP = 0o20, S_IXGRP = 0o10, S_IROTH = 4, S_IWOTH = 2, S_IXOTH = 1
    }
    SHMAT "shmat flags" choose { } flags { SHM_RDONLY = 0o10000, SHM_RND = 0o20000, SHM_REMAP = 0o40000, SHM_EXEC = 0o100000 }
    SHMCTL "shmctl command" choose {
        IPC_RMID = 0, IPC_SET = 1 (In(&SHMID_DS)), IPC_STAT = 2 (Out(&SHMID_DS)), IPC_INFO = 3 (Out(&SHMINFO)), SHM_LOCK = 11, SHM_UNLOCK = 12,
        SHM_STAT = 13 (Out(&SHMID_DS)), SHM_INFO = 14 (Out(&SHM_INFO_OUT)), SHM_STAT_ANY = 15 (Out(&SHMID_DS))
    } flags { }
    SEMCTL "semctl command" choose {
        IPC_RMID = 0, IPC_SET = 1 (In(&SEMID_DS)), IPC_STAT = 2 (Out(&SEMID_DS)), IPC_INFO = 3 (Out(&SEMINFO)), GETPID = 11, GETVAL = 12,
        GETALL = 13 (Out(&SEM_VALUES)), GETNCNT = 14, GETZCNT = 15, SETVAL = 16 (Int(&SMALL)), SETALL = 17 (In(&SEM_VALUES)),
        SEM_STAT = 18 (Out(&SEMID_DS)), SEM_INFO = 19 (Out(&SEMINFO)), SEM_STAT_ANY = 20 (Out(&SEMID_DS))
    } flags { }
    SEM_FLAGS "semop flags" choose { } flags { IPC_NOWAIT = 0o4000, SEM_UNDO = 0x1000 }
    MSGCTL "msgctl command" choose {
        IPC_RMID = 0, IPC_SET = 1 (In(&MSQID_DS)), IPC_STAT = 2 (Out(&MSQID_DS)), IPC_INFO = 3 (Out(&MSGINFO)), MSG_STAT = 11 (Out(&MSQID_DS)),
        MSG_INFO = 12 (Out(&MSGINFO)), MSG_STAT_ANY = 13 (Out(&MSQID_DS))
    } flags { }
    MSGSND "msgsnd flags" choose { } flags { IPC_NOWAIT = 0o4000 }
    MSGRCV "msgrcv flags" choose { } flags { IPC_NOWAIT = 0o4000, MSG_NOERROR = 0o10000, MSG_EXCEPT = 0o20000, MSG_COPY = 0o40000 }
}
