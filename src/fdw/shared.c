/*
 * shared.c: pieces of shared memory.
 *
 * Layer: fdw.
 */
#include "fdw/shared.h"

#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"

void *
mosql_shared_attach(const char *name, Size size, void (*init) (void *piece))
{
	LWLock	   *lock;
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	lock = ShmemInitStruct(name, size, &found);
	if (!found)
	{
		memset(lock, 0, size);
		LWLockInitialize(lock, LWLockNewTrancheId());
		if (init != NULL)
			init(lock);
	}
	LWLockRelease(AddinShmemInitLock);
	LWLockRegisterTranche(lock->tranche, name);
	return lock;
}

int
mosql_shared_my_number(void)
{
#if PG_VERSION_NUM >= 170000
	return MyProcNumber;
#else
	return MyProc->pgprocno;
#endif
}
