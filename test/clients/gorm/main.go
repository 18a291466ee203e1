// An application of GORM and of pgx, which is its driver: migrations, rows, upserts, batches, COPY, cursors, notifications.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

type User struct {
	ID        uint
	CreatedAt time.Time
	DeletedAt gorm.DeletedAt `gorm:"index"`
	Name      string         `gorm:"size:60;not null;comment:as written"`
	Email     *string        `gorm:"uniqueIndex"`
	Age       int8           `gorm:"default:18;check:age > 0"`
	Tags      string         `gorm:"type:jsonb;default:'[]'"`
	Posts     []Post         `gorm:"constraint:OnUpdate:CASCADE,OnDelete:CASCADE"`
	Languages []Language     `gorm:"many2many:user_languages"`
}

type Post struct {
	ID     string `gorm:"type:uuid;primaryKey;default:gen_random_uuid()"`
	UserID uint   `gorm:"index:by_user,priority:2"`
	Title  string `gorm:"index:by_user,priority:1,sort:desc;index:late,where:views > 10,expression:lower(title)"`
	Views  int
	Score  float64 `gorm:"type:numeric(8,3)"`
}

type Language struct {
	Code string `gorm:"primaryKey;size:5"`
	Name string
}

// What User is later on.
type UserLater struct {
	ID    uint
	Name  string  `gorm:"type:text"`
	Email *string `gorm:"size:200"`
	Age   int64   `gorm:"default:21"`
	Town  string  `gorm:"not null;default:'K';index"`
}

func (UserLater) TableName() string { return "users" }

func attempt(what string, action func() (any, error)) {
	said, err := action()
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		if pg.Code == "40001" {
			fmt.Println(what+":", pg.Code)
		} else {
			fmt.Println(what+":", pg.Code, pg.Message, pg.Detail, pg.ConstraintName, pg.TableName, pg.ColumnName)
		}
	} else if err != nil {
		fmt.Println(what+":", err)
	} else {
		text, _ := json.Marshal(said)
		fmt.Println(what+":", string(text))
	}
}

func reflect(db *gorm.DB) {
	m := db.Migrator()
	tables, _ := m.GetTables()
	sort.Strings(tables)
	fmt.Println("tables:", tables)
	for _, t := range tables {
		columns, err := m.ColumnTypes(t)
		if err != nil {
			fmt.Println(t, err)
		}
		for _, c := range columns {
			kind, _ := c.ColumnType()
			null, _ := c.Nullable()
			size, _ := c.Length()
			precision, scale, _ := c.DecimalSize()
			primary, _ := c.PrimaryKey()
			unique, _ := c.Unique()
			auto, _ := c.AutoIncrement()
			value, has := c.DefaultValue()
			comment, _ := c.Comment()
			fmt.Println(t, c.Name(), kind, c.DatabaseTypeName(), null, size, precision, scale, primary, unique, auto, value, has, comment)
		}
		indexes, err := m.GetIndexes(t)
		if err != nil {
			fmt.Println(t, err)
		}
		sort.Slice(indexes, func(i, j int) bool { return indexes[i].Name() < indexes[j].Name() })
		for _, i := range indexes {
			primary, _ := i.PrimaryKey()
			unique, _ := i.Unique()
			fmt.Println(t, i.Name(), i.Columns(), primary, unique, i.Option())
		}
	}
}

func use(db *gorm.DB) {
	mail := func(s string) *string { return &s }
	attempt("create", func() (any, error) {
		u := User{Name: "Ann", Email: mail("ann@x"), Languages: []Language{{"de", "German"}, {"en", "English"}}}
		for i := range 150 {
			u.Posts = append(u.Posts, Post{Title: fmt.Sprint("t", i), Views: i, Score: float64(i) / 8})
		}
		return u.ID, db.Create(&u).Error
	})
	attempt("batches", func() (any, error) {
		var users []User
		for i := range 20 {
			users = append(users, User{Name: fmt.Sprint("u", i), Email: mail(fmt.Sprint(i, "@x"))})
		}
		return len(users), db.CreateInBatches(&users, 7).Error
	})
	attempt("unique", func() (any, error) { return nil, db.Create(&User{Name: "x", Email: mail("ann@x")}).Error })
	attempt("check", func() (any, error) { return nil, db.Create(&User{Name: "x", Age: -1}).Error })
	attempt("foreign key", func() (any, error) { return nil, db.Create(&Post{UserID: 999}).Error })
	attempt("upsert", func() (any, error) {
		u := User{Name: "Anna", Email: mail("ann@x"), Age: 30}
		err := db.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "email"}}, DoUpdates: clause.AssignmentColumns([]string{"name", "age"})}).Create(&u).Error
		return u.ID, err
	})
	attempt("do nothing", func() (any, error) {
		r := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&User{Name: "x", Email: mail("ann@x")})
		return r.RowsAffected, r.Error
	})
	attempt("preload", func() (any, error) {
		var users []User
		err := db.Preload("Posts", "views > ?", 140).Preload("Languages").Order("id").Limit(2).Find(&users).Error
		return fmt.Sprint(users[0].Name, len(users[0].Posts), len(users[0].Languages), users[1].Name), err
	})
	attempt("returning", func() (any, error) {
		var posts []Post
		err := db.Model(&posts).Clauses(clause.Returning{Columns: []clause.Column{{Name: "views"}}}).Where("views > 147").Update("score", gorm.Expr("score * 2")).Error
		sort.Slice(posts, func(i, j int) bool { return posts[i].Views < posts[j].Views })
		return posts, err
	})
	attempt("soft delete", func() (any, error) {
		var left, all int64
		err := db.Where("name LIKE 'u1%'").Delete(&User{}).Error
		db.Model(&User{}).Count(&left)
		db.Unscoped().Model(&User{}).Count(&all)
		return []int64{left, all}, err
	})
	attempt("in batches", func() (any, error) {
		var posts []Post
		n := 0
		r := db.FindInBatches(&posts, 40, func(tx *gorm.DB, batch int) error { n += len(posts); return nil })
		return n, r.Error
	})
	attempt("savepoint", func() (any, error) {
		var name string
		err := db.Transaction(func(tx *gorm.DB) error {
			tx.Model(&User{}).Where("id = 1").Update("name", "B")
			tx.Transaction(func(in *gorm.DB) error { in.Model(&User{}).Where("id = 1").Update("name", "C"); return errors.New("no") })
			return tx.Model(&User{}).Where("id = 1").Pluck("name", &name).Error
		})
		return name, err
	})
	attempt("locking", func() (any, error) {
		var ids []int
		err := db.Transaction(func(tx *gorm.DB) error {
			return tx.Model(&User{}).Clauses(clause.Locking{Strength: "UPDATE", Options: "SKIP LOCKED"}).Where("id < 4").Order("id").Pluck("id", &ids).Error
		})
		return ids, err
	})
	attempt("rows", func() (any, error) {
		rows, err := db.Model(&Post{}).Select("title, views").Where("views < 3").Order("views").Rows()
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		said := ""
		for rows.Next() {
			var title string
			var views int
			rows.Scan(&title, &views)
			said += fmt.Sprint(title, views, " ")
		}
		return said, rows.Err()
	})
}

func migrate(db *gorm.DB) {
	m := db.Migrator()
	step := func(what string, err error) { attempt("---- "+what, func() (any, error) { return nil, err }) }
	step("auto migrate", db.AutoMigrate(&UserLater{}))
	reflect(db)
	step("rename column", m.RenameColumn(&Post{}, "views", "seen"))
	step("drop index", m.DropIndex(&Post{}, "late"))
	step("rename index", m.RenameIndex(&Post{}, "by_user", "by_owner"))
	step("drop constraint", m.DropConstraint(&Post{}, "fk_users_posts"))
	step("has constraint", fmt.Errorf("%v %v", m.HasConstraint(&Post{}, "fk_users_posts"), m.HasConstraint("users", "chk_users_age")))
	step("has index", fmt.Errorf("%v %v", m.HasIndex(&Post{}, "by_owner"), m.HasIndex("posts", "by_user")))
	step("has column", fmt.Errorf("%v %v", m.HasColumn(&Post{}, "seen"), m.HasColumn("posts", "views")))
	step("rename table", m.RenameTable("languages", "tongues"))
	step("retype", db.Exec("ALTER TABLE posts ALTER COLUMN seen TYPE text USING 'n' || seen, ALTER COLUMN score SET NOT NULL").Error)
	step("key", db.Exec("ALTER TABLE posts DROP CONSTRAINT posts_pkey, ADD PRIMARY KEY (user_id, title)").Error)
	step("drop column", m.DropColumn(&Post{}, "id"))
	reflect(db)
	step("drop table", m.DropTable("user_languages"))
}

func direct(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	attempt("pgx: create", func() (any, error) {
		_, err := conn.Exec(ctx, `CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN code AS text CHECK (length(VALUE) < 9);
			CREATE TABLE item (id int PRIMARY KEY, mood mood, code code, at timestamptz, price numeric(9,2), period daterange, words text[], data jsonb,
				host inet, mac macaddr, raw bytea, span interval, u uuid, f float4, bits varbit, p point)`)
		return nil, err
	})
	types, err := conn.LoadTypes(ctx, []string{"mood", "code"})
	if err != nil {
		fmt.Println("types:", err)
	}
	conn.TypeMap().RegisterTypes(types)
	attempt("pgx: insert", func() (any, error) {
		at := time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)
		tag, err := conn.Exec(ctx, "INSERT INTO item VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)", 1, "ok", "c", at, "12.50", "[2024-01-01,2024-02-01)",
			[]string{"a", "b"}, map[string]int{"n": 1}, "10.0.0.1/8", "08:00:2b:01:02:03", []byte{0, 255}, 90*time.Minute, "00000000-0000-0000-0000-000000000001", float32(1.5), "1010", "(1,2)")
		return tag.String(), err
	})
	attempt("pgx: copy", func() (any, error) {
		return conn.CopyFrom(ctx, pgx.Identifier{"item"}, []string{"id", "mood", "price", "words"}, pgx.CopyFromSlice(500, func(i int) ([]any, error) {
			return []any{i + 2, []string{"sad", "ok"}[i%2], nil, []string{fmt.Sprint("w", i)}}, nil
		}))
	})
	attempt("pgx: copy again", func() (any, error) {
		return conn.CopyFrom(ctx, pgx.Identifier{"item"}, []string{"id"}, pgx.CopyFromRows([][]any{{1000}, {7}}))
	})
	attempt("pgx: read", func() (any, error) {
		rows, err := conn.Query(ctx, "SELECT * FROM item WHERE id = ANY($1) ORDER BY id", []int{1, 2})
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowToMap)
	})
	attempt("pgx: batch", func() (any, error) {
		b := &pgx.Batch{}
		for i := range 50 {
			b.Queue("UPDATE item SET f = $2 WHERE id = $1", i+1, float32(i))
		}
		b.Queue("SELECT sum(f) FROM item")
		b.Queue("INSERT INTO item (id) VALUES (2000) RETURNING id")
		r := conn.SendBatch(ctx, b)
		for range 50 {
			r.Exec()
		}
		var sum, id float64
		r.QueryRow().Scan(&sum)
		r.QueryRow().Scan(&id)
		return []float64{sum, id}, r.Close()
	})
	attempt("pgx: failing batch", func() (any, error) {
		b := &pgx.Batch{}
		b.Queue("INSERT INTO item (id) VALUES (3000)")
		b.Queue("INSERT INTO item (id) VALUES (1)")
		return nil, conn.SendBatch(ctx, b).Close()
	})
	attempt("pgx: rolled back", func() (any, error) {
		var n int
		return n, conn.QueryRow(ctx, "SELECT count(*) FROM item WHERE id = 3000").Scan(&n)
	})
	attempt("pgx: cursor", func() (any, error) {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return nil, err
		}
		defer tx.Rollback(ctx)
		tx.Exec(ctx, "DECLARE c SCROLL CURSOR FOR SELECT id FROM item ORDER BY id")
		rows, _ := tx.Query(ctx, "FETCH 5 FROM c")
		one, _ := pgx.CollectRows(rows, pgx.RowTo[int])
		rows, _ = tx.Query(ctx, "FETCH BACKWARD 2 FROM c")
		two, err := pgx.CollectRows(rows, pgx.RowTo[int])
		return [][]int{one, two}, err
	})
	attempt("pgx: prepared, then altered", func() (any, error) {
		var f any
		conn.QueryRow(ctx, "SELECT * FROM item WHERE id = $1", 1).Scan()
		if _, err := conn.Exec(ctx, "ALTER TABLE item ADD COLUMN more int NOT NULL DEFAULT 5, ALTER COLUMN mood TYPE text USING mood::text"); err != nil {
			return nil, err
		}
		_, err := conn.Prepare(ctx, "p", "SELECT mood, more FROM item WHERE id = $1")
		if err != nil {
			return nil, err
		}
		conn.QueryRow(ctx, "p", 1).Scan(&f)
		conn.Exec(ctx, "ALTER TABLE item RENAME COLUMN more TO most")
		_, err = conn.Exec(ctx, "p", 1)
		return f, err
	})
	attempt("pgx: describe", func() (any, error) {
		d, err := conn.Prepare(ctx, "q", "SELECT id, words, price, data FROM item WHERE u = $1 AND price > $2")
		if err != nil {
			return nil, err
		}
		said := fmt.Sprint(d.ParamOIDs)
		for _, f := range d.Fields {
			said += fmt.Sprint(" ", f.Name, f.DataTypeOID, " ", f.TypeModifier, " ", f.TableAttributeNumber, f.TableOID != 0)
		}
		return said, nil
	})
	attempt("pgx: serializable", func() (any, error) {
		other, err := pgx.Connect(ctx, "")
		if err != nil {
			return nil, err
		}
		defer other.Close(ctx)
		one, _ := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
		two, _ := other.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
		var a, b float64
		one.QueryRow(ctx, "SELECT sum(f) FROM item").Scan(&a)
		two.QueryRow(ctx, "SELECT sum(f) FROM item").Scan(&b)
		one.Exec(ctx, "UPDATE item SET f = $1 WHERE id = 1", a)
		two.Exec(ctx, "UPDATE item SET f = $1 WHERE id = 2", b)
		return nil, errors.Join(one.Commit(ctx), two.Commit(ctx))
	})
	attempt("pgx: cancelled", func() (any, error) {
		short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
		defer stop()
		other, _ := pgx.Connect(ctx, "")
		_, err := other.Exec(short, "SELECT count(*), pg_sleep(60) FROM item")
		return errors.Is(err, context.DeadlineExceeded), nil
	})
	attempt("pgx: notify", func() (any, error) {
		conn.Exec(ctx, "LISTEN said")
		tx, _ := conn.Begin(ctx)
		tx.Exec(ctx, "UPDATE item SET f = 1; SELECT pg_notify('said', 'x')")
		tx.Commit(ctx)
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return nil, err
		}
		return n.Payload, nil
	})
	return nil
}

func main() {
	quiet := &gorm.Config{Logger: logger.Default.LogMode(logger.Silent), TranslateError: false}
	db, err := gorm.Open(postgres.New(postgres.Config{DSN: "dbname=" + os.Getenv("PGDATABASE")}), quiet)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	attempt("auto migrate", func() (any, error) { return nil, db.AutoMigrate(&User{}, &Post{}, &Language{}) })
	reflect(db)
	attempt("auto migrate again", func() (any, error) { return nil, db.AutoMigrate(&User{}, &Post{}, &Language{}) })
	use(db)
	migrate(db)
	attempt("direct", func() (any, error) { return nil, direct(context.Background()) })
}
