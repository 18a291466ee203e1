// Workers of the queue River, as its documents have them: a job completes in the transaction of its work.
//
//	river schema                          its migrations
//	river enqueue FIRST LAST MET          jobs with these numbers, each only once; MET of them are there already
//	river work WORKERS                    until it is told to stop, SIGTERM
//
// The database comes from PostgreSQL's environment variables.  Each job writes its number to
// the table ran; each seventh fails at first and is tried again.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
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

type sum struct {
	Key int `json:"key"`
}

func (sum) Kind() string { return "sum" }

type worker struct {
	river.WorkerDefaults[sum]
	pool *pgxpool.Pool
}

func (w *worker) Work(ctx context.Context, job *river.Job[sum]) error {
	if job.Args.Key%7 == 3 && job.Attempt == 1 {
		return errors.New("not yet")
	}
	tx, err := w.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, "INSERT INTO ran (key, who) VALUES ($1, $2)", job.Args.Key, os.Getpid()); err != nil {
		return err
	}
	if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

type atOnce struct{}

func (atOnce) NextRetry(*rivertype.JobRow) time.Time { return time.Now() }

func enqueue(ctx context.Context, client *river.Client[pgx.Tx], first, last, met int) {
	for i := first; i <= last; i++ {
		said, err := client.Insert(ctx, sum{i}, &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}})
		check(err)
		if said.UniqueSkippedAsDuplicate {
			met--
		}
	}
	if met != 0 {
		log.Fatalf("%d more duplicates were to be met", met)
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, "")
	check(err)
	if os.Args[1] == "schema" {
		migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
		check(err)
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		check(err)
		return
	}
	config := &river.Config{Workers: river.NewWorkers(), RetryPolicy: atOnce{}, FetchPollInterval: 100 * time.Millisecond}
	river.AddWorker(config.Workers, &worker{pool: pool})
	if os.Args[1] == "work" {
		config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: number(os.Args[2])}}
	}
	client, err := river.NewClient(riverpgxv5.New(pool), config)
	check(err)
	if os.Args[1] == "enqueue" {
		enqueue(ctx, client, number(os.Args[2]), number(os.Args[3]), number(os.Args[4]))
		return
	}
	check(client.Start(context.Background()))
	<-ctx.Done()
	check(client.Stop(context.Background()))
}
