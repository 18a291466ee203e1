// Workers of the queue gue, as its documents have them: a worker takes a job with FOR UPDATE
// SKIP LOCKED, and the job runs in that transaction, so that the row is locked for as long.
//
//	gue enqueue FIRST LAST          jobs with these numbers
//	gue work WORKERS                until it is told to stop, SIGTERM
//
// The database comes from PostgreSQL's environment variables.  Each job writes its number to
// the table ran, and what began to standard output; each seventh fails at first and is tried again.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/vgarvardt/gue/v5"
	"github.com/vgarvardt/gue/v5/adapter/pgxv5"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

func run(ctx context.Context, j *gue.Job) error {
	key := number(string(j.Args))
	fmt.Println("began", key)
	if key%7 == 3 && j.ErrorCount == 0 {
		return errors.New("not yet")
	}
	time.Sleep(time.Duration(key%5) * time.Millisecond)
	_, err := j.Tx().Exec(ctx, "INSERT INTO ran (key, who) VALUES ($1, $2)", key, os.Getpid())
	return err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, "")
	check(err)
	client, err := gue.NewClient(pgxv5.NewConnPool(pool),
		gue.WithClientBackoff(func(int) time.Duration { return 50 * time.Millisecond }))
	check(err)
	if os.Args[1] == "enqueue" {
		for i := number(os.Args[2]); i <= number(os.Args[3]); i++ {
			check(client.Enqueue(ctx, &gue.Job{Type: "sum", Args: []byte(strconv.Itoa(i))}))
		}
		return
	}
	workers, err := gue.NewWorkerPool(client, gue.WorkMap{"sum": run}, number(os.Args[2]),
		gue.WithPoolPollInterval(20*time.Millisecond))
	check(err)
	check(workers.Run(ctx))
}
