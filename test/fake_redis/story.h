/*
 * story.h: a story is what a client does and what scripted nodes answer.
 *
 * One file per story; README.md describes the language.
 */
#ifndef STORY_H
#define STORY_H

#include <stdbool.h>

#define STORY_MAX_NODES 4
#define STORY_MAX_LINES 256
#define STORY_MAX_WORDS 32

/* One line of a story, split at blanks. */
typedef struct StoryLine
{
	int			number;			/* in the file */
	int			nwords;
	char	   *words[STORY_MAX_WORDS];
	char	   *rest;			/* everything after the second word */
} StoryLine;

typedef struct Story
{
	const char *name;
	int			nnodes;
	int			ports[STORY_MAX_NODES];
	bool		bytewise;		/* nodes send each byte on its own */
	int			nlines;
	StoryLine	lines[STORY_MAX_LINES];
} Story;

/*
 * Play a node's part on a listening socket until control (a pipe) is closed.
 * Returns 0 if everything happened as scripted; else it has said what did not.
 */
extern int	fake_node_play(const Story *story, int node, int listener, int control);

#endif							/* STORY_H */
