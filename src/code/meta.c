/*
 * meta.c: the meta field of a node.
 *
 * Layer: code.
 *
 *     offset 0  8 bytes  generation, big-endian
 *            8  1 byte   format, MOSQL_NODE_FORMAT
 *            9  1 byte   level
 *           10  1 byte   state: 'N', 'S', 'P', 'L', 'D', 'X'
 *           11  1 byte   what follows (META_* below), other bits 0
 *           12  8 bytes  tree
 *           20  8 bytes  right sibling       if META_RIGHT
 *               8 bytes  other               if META_OTHER
 *               varint length, low fence (empty: no bound)
 *               varint length, high fence    if META_HIGH
 *               varint length, split key     if META_SPLIT_KEY
 *               1 byte over, 16 bytes loader 'L'
 *               1 byte whole, 7 bytes since  'P'; 0: its rows carry their own timestamps
 *
 * Decoding checks what can be seen in the bytes alone: whether fences are in
 * order and siblings make sense is the tree's to say (btree/node.c).
 */
#include "code/node.h"
#include "code/code_int.h"

#define META_RIGHT		0x01
#define META_OTHER		0x02
#define META_HIGH		0x04
#define META_SPLIT_KEY	0x08

/* A leaf is loading over rows, and deletes some, and stands for locks. */
#define LOADING_OVER	1
#define LOADING_DELETES	2
#define LOADING_LOCKS	4

/* Of what was before a block's transaction: nobody can ask, somebody may, and it is what is there. */
#define BLOCK_WHOLE		1
#define BLOCK_UNDONE	2
#define BLOCK_DELETES	3		/* somebody may, and some of it is deleted */

#define META_FORMAT_OFFSET	8
#define META_LEVEL_OFFSET	9
#define META_TREE_OFFSET	12
#define META_FIXED_BYTES	MOSQL_META_RIGHT_OFFSET

static inline size_t
run_size(MosqlBytes run)
{
	return varint_size(run.len) + run.len;
}

static char *
put_fence(char *p, MosqlBytes fence)
{
	return put_bytes(put_varint(p, fence.len), fence);
}

/* What a node in this state has beyond the common, whatever is left in the
 * struct of an earlier state. */
static int
meta_flags(const MosqlNodeMeta *meta)
{
	int			flags = 0;

	if (meta->right != 0)
		flags |= META_RIGHT;
	if (meta->other != 0 && (meta->state == MOSQL_NODE_SPLITTING || !mosql_node_is_alive(meta->state)))
		flags |= META_OTHER;
	if (meta->high.data != NULL)
		flags |= META_HIGH;
	if (meta->state == MOSQL_NODE_SPLITTING)
		flags |= META_SPLIT_KEY;
	return flags;
}

/* The flags go with the state; false if a node cannot be like that. */
static bool
flags_fit_state(int flags, int state)
{
	switch (state)
	{
		case MOSQL_NODE_NORMAL:
		case MOSQL_NODE_PACKED:
		case MOSQL_NODE_LOADING:
			return (flags & (META_OTHER | META_SPLIT_KEY)) == 0;
		case MOSQL_NODE_SPLITTING:
			return (flags & META_OTHER) != 0 && (flags & META_SPLIT_KEY) != 0;
		case MOSQL_NODE_DYING:
			return (flags & META_SPLIT_KEY) == 0;
		case MOSQL_NODE_DEAD:
			return (flags & META_OTHER) != 0 && (flags & META_SPLIT_KEY) == 0;
	}
	return false;
}

void
mosql_meta_encode(StringInfo out, const MosqlNodeMeta *meta)
{
	int			flags = meta_flags(meta);
	size_t		size = META_FIXED_BYTES + run_size(meta->low);
	char	   *p;

	Assert(flags_fit_state(flags, meta->state));
	Assert(meta->low.len <= MOSQL_KEY_MAX_BYTES && meta->high.len <= MOSQL_KEY_MAX_BYTES);
	if (flags & META_RIGHT)
		size += 8;
	if (flags & META_OTHER)
		size += 8;
	if (flags & META_HIGH)
		size += run_size(meta->high);
	if (flags & META_SPLIT_KEY)
		size += run_size(meta->split_key);
	if (meta->state == MOSQL_NODE_LOADING)
		size += 1 + MOSQL_TXID_BYTES;
	if (meta->state == MOSQL_NODE_PACKED)
		size += 1 + MOSQL_TS_BYTES;

	p = grow(out, size);
	p = put_uint64(p, meta->generation);
	*p++ = MOSQL_NODE_FORMAT;
	*p++ = (char) meta->level;
	*p++ = (char) meta->state;
	*p++ = (char) flags;
	p = put_uint64(p, meta->tree);
	if (flags & META_RIGHT)
		p = put_uint64(p, meta->right);
	if (flags & META_OTHER)
		p = put_uint64(p, meta->other);
	p = put_fence(p, meta->low);
	if (flags & META_HIGH)
		p = put_fence(p, meta->high);
	if (flags & META_SPLIT_KEY)
		p = put_fence(p, meta->split_key);
	if (meta->state == MOSQL_NODE_LOADING)
	{
		*p++ = (meta->loaded.over ? LOADING_OVER : 0) | (meta->loaded.deletes ? LOADING_DELETES : 0) |
			(meta->loaded.locks ? LOADING_LOCKS : 0);
		p = put_uint64(put_uint64(p, meta->loaded.loader.session), meta->loaded.loader.n);
	}
	if (meta->state == MOSQL_NODE_PACKED)
	{
		*p++ = meta->loaded.undone ? BLOCK_UNDONE : meta->loaded.whole && meta->loaded.deletes ? BLOCK_DELETES :
			meta->loaded.whole;
		p = put_ts(p, meta->loaded.since);
	}
	Assert(p == out->data + out->len);
}

/* An id that is only written where it is not 0. */
static bool
take_id(MosqlBytes *in, uint64 *id)
{
	const char *p;

	if (!take(in, 8, &p))
		return false;
	*id = get_uint64(p);
	return *id != 0;
}

/* What the rows of a block are that was loaded, at the end of the meta.  A time that no commit has is damage. */
static bool
take_loaded(MosqlBytes *in, MosqlNodeState state, MosqlLoaded *loaded)
{
	const char *p;

	*loaded = (MosqlLoaded) {0};
	if (state == MOSQL_NODE_LOADING)
	{
		if (!take(in, 1 + MOSQL_TXID_BYTES, &p) || (*p & ~(LOADING_OVER | LOADING_DELETES | LOADING_LOCKS)) != 0 ||
			(*p != 0 && (*p & LOADING_OVER) == 0))
			return false;
		loaded->over = *p != 0;
		loaded->locks = (*p & LOADING_LOCKS) != 0;
		loaded->deletes = (*p & LOADING_DELETES) != 0;
		loaded->loader = mosql_txid_get(p + 1);
		return loaded->loader.session != 0;
	}
	if (state != MOSQL_NODE_PACKED)
		return true;
	if (!take(in, 1 + MOSQL_TS_BYTES, &p) || (uint8) *p > BLOCK_DELETES)
		return false;
	loaded->whole = *p == BLOCK_WHOLE || *p == BLOCK_DELETES;
	loaded->deletes = *p == BLOCK_DELETES;
	loaded->undone = *p == BLOCK_UNDONE;
	loaded->since = get_ts(p + 1);
	return loaded->since != MOSQL_TS_MAX && (loaded->since != 0 ? !loaded->undone : !loaded->whole);
}

bool
mosql_meta_decode(MosqlBytes in, MosqlNodeMeta *meta)
{
	const char *p;
	int			flags;

	if (!take(&in, META_FIXED_BYTES, &p) || p[META_FORMAT_OFFSET] != MOSQL_NODE_FORMAT)
		return false;
	meta->generation = get_uint64(p);
	meta->level = (uint8) p[META_LEVEL_OFFSET];
	meta->state = (MosqlNodeState) (uint8) p[MOSQL_META_STATE_OFFSET];
	meta->tree = get_uint64(p + META_TREE_OFFSET);
	meta->right = 0;
	meta->other = 0;
	meta->high = MOSQL_ABSENT;
	meta->split_key = MOSQL_ABSENT;
	flags = (uint8) p[MOSQL_META_FLAGS_OFFSET];

	if (meta->level > MOSQL_TREE_MAX_LEVEL || !flags_fit_state(flags, meta->state) ||
		(flags & ~(META_RIGHT | META_OTHER | META_HIGH | META_SPLIT_KEY)) != 0)
		return false;
	if ((flags & META_RIGHT) && !take_id(&in, &meta->right))
		return false;
	if ((flags & META_OTHER) && !take_id(&in, &meta->other))
		return false;
	if (!take_run(&in, MOSQL_KEY_MAX_BYTES, &meta->low))
		return false;
	if ((flags & META_HIGH) && !take_run(&in, MOSQL_KEY_MAX_BYTES, &meta->high))
		return false;
	if ((flags & META_SPLIT_KEY) && !take_run(&in, MOSQL_KEY_MAX_BYTES, &meta->split_key))
		return false;
	return take_loaded(&in, meta->state, &meta->loaded) && in.len == 0;
}

/*
 * The order of the answers matters.  A dead node's fences mean nothing any
 * more; but a splitting or dying node still knows where keys outside of it
 * are, and they need not wait for it.
 */
MosqlCover
mosql_meta_cover(const MosqlNodeMeta *meta, MosqlBytes key)
{
	if (meta->state == MOSQL_NODE_DEAD)
		return MOSQL_COVER_DEAD;
	if (mosql_bytes_compare(key, meta->low) < 0)
		return MOSQL_COVER_LEFT;
	if (meta->high.data != NULL && mosql_bytes_compare(key, meta->high) >= 0)
		return MOSQL_COVER_RIGHT;
	if (meta->state == MOSQL_NODE_SPLITTING &&
		mosql_bytes_compare(key, meta->split_key) >= 0)
		return MOSQL_COVER_FROZEN;
	if (meta->state == MOSQL_NODE_DYING)
		return MOSQL_COVER_DYING;
	return MOSQL_COVER_OK;
}
