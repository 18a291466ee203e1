/*
 * private.pml: a tree that a transaction makes, fills without intents, and names with its
 * commit (docs/commit.md, "Private trees"; rule 38).
 *
 * Modelled: a loader that makes a tree under a session's id, notes how many connections have
 * broken, writes two leaves, brings them in, and commits the definition that names it; the
 * decision compares the session's lease.  Servers, one for the leaves and one for the clock and the
 * definitions, that forget what they have not copied (FORGETS): connections to them break, which
 * the next request to them finds out.  DURABLE: each step waits for its copies instead.  The lease
 * may run out, and a sweep destroys trees of the dead that no definition named when it looked.  A
 * reader with an older or a newer snapshot goes by the definition as of it.  The loader may stop for
 * good anywhere, or its transaction be rolled back.
 *
 * Abstracted: rows are leaves; a row's version is the snapshot that the load was made of, or that was
 * drawn for it.  Leaves
 * are brought in by one step on the last one (split.pml and sweep.pml have what may meet it).
 * Nothing forgets between the probe of all servers and the decision, which follows it as a
 * decision follows its prepare (forgetful.pml).
 *
 * Claims: when the definition is decided all leaves are there, and brought in; who reads by
 * the definition of its snapshot finds all rows, each not younger than that snapshot.
 *
 * run: ci
 * run: ci -DFORGETS
 * run: ci -DFORGETS -DDURABLE
 * mutation: MUT_NAME_FIRST the definition is decided before the load has ended
 * mutation: MUT_NO_FENCE_LOAD -DFORGETS rule 34: connections that broke while rows were loaded do not count at the decision
 * mutation: MUT_FENCE_LATE -DFORGETS they count from the end of the load on
 * mutation: MUT_NO_PROBE -DFORGETS what broke since the last leaf was written is not found out before the decision
 * mutation: MUT_NO_WAIT -DFORGETS -DDURABLE rule 17: leaves are not waited for
 * mutation: MUT_NEW_VERSION rows bear a time that is drawn after the decision
 * mutation: MUT_OLD_ID who was given a new id commits what it made under the old one
 */
byte clock = 1;					/* its last timestamp */
byte version;					/* of the rows that are loaded */
byte named;						/* the timestamp of the definition that names the tree; 0: none does */
bit tree;						/* it is there: nobody has destroyed it */
bit leaf[2], copied[2];			/* written; and copied */
bit linked, linked_copied;
bit lease = 1;
byte breaks;					/* of connections to the server with the leaves */
byte met;						/* those that the loader has found out */

/* All that is read through the tree. */
#define whole() (tree && leaf[0] && leaf[1] && linked)

inline write_leaf(i)
{
	d_step {
		leaf[i] = 1;
#ifdef DURABLE
#ifndef MUT_NO_WAIT
		copied[i] = 1;
#endif
#endif
		met = breaks;
		printf("leaf %d is written\n", i)
	}
}

inline bring_in()
{
	d_step {
		linked = 1;
#ifdef DURABLE
#ifndef MUT_NO_WAIT
		linked_copied = 1;
#endif
#endif
		met = breaks;
		printf("the leaves are brought in\n")
	}
}

inline decide()
{
	d_step {
		if
		:: !lease -> skip
		:: else ->
			clock++;
			named = clock;
			printf("the definition is decided at %d\n", named);
			assert(whole())
		fi
	}
}

proctype Loader()
{
	byte noted = 0;
	bit renewed = 0;

	d_step { tree = 1; version = clock; noted = met; printf("loads as of %d\n", version) }
#ifdef MUT_NAME_FIRST
	decide();
#endif
	write_leaf(0);
	write_leaf(1);
	bring_in();
	if
	:: d_step { !lease -> renewed = 1; lease = 1; printf("another id\n") }
	:: true
	fi;
	if
	:: goto done				/* it dies, or is rolled back */
	:: true
	fi;
#ifdef MUT_FENCE_LATE
	noted = met;
#endif
#ifndef MUT_OLD_ID
	if
	:: renewed -> goto done
	:: else
	fi;
#endif
	/* 40001 if a connection broke since the first row */
	atomic {
#ifndef DURABLE
#ifndef MUT_NO_PROBE
		met = breaks;
#endif
#ifndef MUT_NO_FENCE_LOAD
		if
		:: noted != met -> goto done
		:: else
		fi;
#endif
#endif
#ifndef MUT_NAME_FIRST
		decide()
#endif
	};
#ifdef MUT_NEW_VERSION
	d_step { clock++; version = clock }
#endif
done:
	skip
}

/* The server with the leaves comes back as it was when it last copied. */
proctype Forgetter()
{
#ifdef FORGETS
	d_step {
		named == 0 ->
		leaf[0] = leaf[0] && copied[0];
		leaf[1] = leaf[1] && copied[1];
		linked = linked && linked_copied;
		breaks++;
		printf("a server forgets\n")
	}
#endif
	skip
}

/* Copies are made at any time. */
proctype Copier()
{
	d_step { copied[0] = leaf[0]; copied[1] = leaf[1]; linked_copied = linked }
}

proctype Expiry()
{
	d_step { lease = 0; printf("the lease ran out\n") }
}

/* Who lives is asked first, then the definitions are listed, then the tree is met. */
proctype Sweep()
{
	bit dead = 0, known = 0;

	d_step { dead = !lease }
	d_step { known = named != 0 }
	if
	:: d_step { dead && !known && tree -> tree = 0; printf("the tree is swept\n") }
	:: true
	fi;
	assert(named == 0 || tree)
}

proctype Reader()
{
	byte S = 0;

	d_step { S = clock; printf("a snapshot at %d\n", S) }
	if
	:: d_step {
			named != 0 && named <= S ->
			assert(whole() && version <= S)
		}
	:: true
	fi
}

init {
	atomic {
		run Loader(); run Forgetter(); run Copier(); run Expiry(); run Sweep();
		run Reader(); run Reader()
	}
}
