# An application of Rails' ActiveRecord: migrations as people write them, schema.rb, records; run by test/clients/run.
require "active_record"
require "stringio"

ActiveRecord::Base.establish_connection(adapter: "postgresql", pool: 5)
ActiveRecord::Migration.verbose = false
ActiveSupport::Deprecation.silenced = true
$stdout.sync = true
C = ActiveRecord::Base.connection

def attempt(what)
  result = yield
  puts "#{what}: #{result.inspect}"
rescue => e
  puts "#{what}: #{e.class}: #{e.message.lines.map(&:strip).join(" | ").sub(" | HINT:  The transaction might succeed if retried.", "")}"
end

V = ActiveRecord::Migration[6.1]

class CreateAuthors < V
  def change
    enable_extension "pgcrypto"
    enable_extension "citext"
    create_table :authors, comment: "who writes" do |t|
      t.string :name, null: false, limit: 80
      t.citext :mail, index: { unique: true }
      t.date :born
      t.jsonb :settings, null: false, default: {}
      t.string :words, array: true, default: []
      t.timestamps
    end
    create_table :books, id: :uuid do |t|
      t.references :author, null: false, foreign_key: { on_delete: :cascade }
      t.string :title, null: false, comment: "as printed"
      t.decimal :price, precision: 10, scale: 2, default: "0.0"
      t.integer :copies, default: 0, null: false
      t.text :note
      t.inet :seen_from
      t.timestamps
      t.index [:author_id, :title], unique: true
      t.index "lower(title)", name: "books_by_title"
      t.index :price, order: { price: :desc }, where: "copies > 0"
      t.check_constraint "price >= 0", name: "price_not_negative"
    end
    create_table :books_readers, id: false do |t|
      t.uuid :book_id, null: false
      t.integer :reader_id, index: true
    end
    create_table :readers, id: :serial do |t|
      t.string :name
      t.bigint :card, null: false
      t.integer :state, limit: 2, default: 0
      t.boolean :active, default: true, null: false
      t.float :weight
      t.time :at
      t.binary :picture
    end
  end
end

class Enums < V
  def up
    execute "CREATE TYPE genre AS ENUM ('novel', 'poem', 'play')"
    add_column :books, :genre, :genre, default: "novel", null: false
    execute "ALTER TYPE genre RENAME VALUE 'play' TO 'drama'"
  end

  def down
    remove_column :books, :genre
    execute "DROP TYPE genre"
  end
end

class EnumValue < V
  disable_ddl_transaction!
  def up
    execute "ALTER TYPE genre ADD VALUE IF NOT EXISTS 'essay' AFTER 'poem'"
    add_index :books, :genre, algorithm: :concurrently
  end

  def down
    remove_index :books, :genre
  end
end

class Renames < V
  def change
    rename_column :books, :note, :remark
    rename_column :readers, :card, :card_number
    rename_table :readers, :members
    rename_index :books, "books_by_title", "books_by_lower_title"
    add_column :members, :since, :datetime, null: false, default: -> { "CURRENT_TIMESTAMP" }
    add_column :members, :kind, :string, null: false, default: "plain"
    add_foreign_key :books_readers, :members, column: :reader_id, on_delete: :nullify, on_update: :cascade
    add_foreign_key :books_readers, :books, validate: false
  end
end

class Retypes < V
  def up
    change_column :members, :state, :string, using: "CASE state WHEN 0 THEN 'new' ELSE 'old' END", default: "new"
    change_column :members, :card_number, :text
    change_column :books, :copies, :bigint
    change_column :books, :price, :decimal, precision: 12, scale: 4
    change_column :books, :title, :text
    change_column_default :books, :copies, from: 0, to: 1
    change_column_null :members, :name, false, "nobody"
    change_column_null :books, :price, false, 0
    change_column_comment :books, :title, "the title"
    change_table_comment :authors, "authors"
    change_table :authors, bulk: true do |t|
      t.change :name, :text
      t.remove :born
      t.column :age, :integer
      t.rename :words, :tags
      t.index :age
    end
    validate_foreign_key :books_readers, :books
    add_check_constraint :members, "weight > 0", name: "weighs", validate: false
    validate_check_constraint :members, name: "weighs"
    remove_check_constraint :books, name: "price_not_negative"
  end

  def down
    raise ActiveRecord::IrreversibleMigration
  end
end

class Keys < V
  def up
    remove_foreign_key :books_readers, :books
    execute "ALTER TABLE books DROP CONSTRAINT books_pkey"
    add_column :books, :number, :bigserial
    execute "ALTER TABLE books ADD PRIMARY KEY (number)"
    add_index :books, :id, unique: true
    add_column :books_readers, :id, :primary_key
    remove_index :books, [:author_id, :title]
    remove_reference :books, :author, foreign_key: true
    add_reference :books, :writer, foreign_key: { to_table: :authors }
    drop_table :books_readers
    remove_column :authors, :tags
    change_column :members, :id, :bigint
    execute "ALTER SEQUENCE members_id_seq AS bigint"
  end
end

def dump
  out = StringIO.new
  ActiveRecord::SchemaDumper.dump(C, out)
  puts out.string.lines.reject { |l| l.start_with?("#") }
end

def reflect
  C.tables.sort.each do |t|
    puts "#{t}: #{C.primary_keys(t)} #{C.table_comment(t).inspect} #{C.pk_and_sequence_for(t)&.map(&:to_s)} #{C.default_sequence_name(t, C.primary_key(t)) rescue nil}"
    C.columns(t).each { |c| puts "  #{c.name} #{c.sql_type} #{c.null} #{c.default.inspect} #{c.default_function.inspect} #{c.comment.inspect} #{c.serial? rescue nil}" }
    C.indexes(t).sort_by(&:name).each { |i| puts "  #{i.name} #{i.columns} #{i.unique} #{i.orders} #{i.where} #{i.using} #{i.comment} #{i.opclasses}" }
    C.foreign_keys(t).sort_by(&:name).each { |f| puts "  #{f.name} #{f.to_table} #{f.options.sort_by { |k, _| k.to_s }}" }
    C.check_constraints(t).sort_by(&:name).each { |c| puts "  #{c.name} #{c.expression}" }
  end
  puts "views: #{C.views} sources: #{C.data_sources.sort}"
end

class Author < ActiveRecord::Base
  has_many :books, foreign_key: :author_id
end
class Book < ActiveRecord::Base
  belongs_to :author
  validates :title, presence: true
  self.implicit_order_column = "title"
end
class Reader < ActiveRecord::Base; end
class Member < ActiveRecord::Base; end

def forget
  [Author, Book, Reader, Member].each(&:reset_column_information)
  C.schema_cache.clear!
end

def up(version, migration)
  puts "---- #{migration}"
  attempt("migrate") do
    m = migration.new(migration.name, version)
    ActiveRecord::Migrator.new(:up, [m], ActiveRecord::SchemaMigration, version).migrate.size
  end
  forget
  reflect
  dump
end

def records
  zeno = Author.create!(name: "Zeno", mail: "Zeno@x", born: "0490-01-01", settings: { a: 1 }, words: %w[one two])
  hume = Author.create!(name: "Hume", mail: "hume@x")
  attempt("citext unique") { Author.create!(name: "Z", mail: "ZENO@X") }
  attempt("found") { Author.find_by(mail: "zEnO@x").words }
  zeno.books.create!(title: "Paradoxes", price: 12.5, copies: 3, seen_from: "10.0.0.1")
  hume.books.create!(title: "Enquiry", price: 3)
  attempt("insert_all") { Book.insert_all((1..300).map { |i| { author_id: hume.id, title: "Essay #{i}", price: i, created_at: Time.at(0), updated_at: Time.at(0) } }).length }
  attempt("insert_all again") { Book.insert_all([{ author_id: hume.id, title: "Essay 1", created_at: Time.at(0), updated_at: Time.at(0) }]).length }
  attempt("upsert") { Book.upsert_all([{ author_id: hume.id, title: "Essay 1", copies: 9, created_at: Time.at(0), updated_at: Time.at(0) }], unique_by: %i[author_id title]).length }
  attempt("upserted") { Book.find_by(title: "Essay 1").copies }
  attempt("unique") { Book.create!(author: hume, title: "Essay 2") }
  attempt("check") { Book.create!(author: hume, title: "x", price: -1) }
  attempt("fk") { Book.create!(author_id: 99, title: "x") }
  attempt("insert fk") { Book.insert!({ author_id: 99, title: "x", created_at: Time.at(0), updated_at: Time.at(0) }) }
  attempt("not null") { Author.connection.execute("INSERT INTO authors (name) VALUES (NULL)") }
  attempt("batches") { n = 0; Book.find_in_batches(batch_size: 100) { |b| n += b.size }; n }
  attempt("calculations") { [Book.count, Book.sum(:copies), Book.average(:price).to_f.round(3), Book.group(:author_id).count.sort, Book.maximum(:title)] }
  attempt("includes") { Author.includes(:books).order(:id).map { |a| [a.name, a.books.size] } }
  attempt("joins") { Author.joins(:books).where(books: { copies: 1.. }).distinct.pluck(:name).sort }
  attempt("lock") { Author.transaction { a = Author.lock.find(zeno.id); a.update!(name: "Zenon"); Author.find(zeno.id).name } }
  attempt("nested") do
    Author.transaction do
      hume.update!(name: "David")
      Author.transaction(requires_new: true) { hume.update!(name: "Nobody"); raise ActiveRecord::Rollback }
      Author.find(hume.id).name
    end
  end
  attempt("json") { Author.where("settings @> ?", '{"a": 1}').count }
  attempt("arrays") { Author.where("'two' = ANY (words)").count }
  attempt("update_all") { Book.where("price > 290").update_all("copies = copies + 1") }
  attempt("increment") { Book.update_counters(Book.find_by(title: "Enquiry").id, copies: 5) }
  attempt("readers") { (1..5).map { |i| Reader.create!(name: i.odd? ? "r#{i}" : nil, card: i, state: i % 2, picture: "\0\xff".b, weight: i / 3.0, at: "12:00").id } }
  attempt("advisory") { C.get_advisory_lock(7) && C.release_advisory_lock(7) }
  attempt("serialization") do
    one, two = [ActiveRecord::Base.connection_pool.checkout, ActiveRecord::Base.connection_pool.checkout]
    begin
      one.execute("BEGIN ISOLATION LEVEL REPEATABLE READ"); two.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
      one.execute("SELECT name FROM authors"); two.execute("SELECT name FROM authors")
      one.execute("UPDATE authors SET name = 'X' WHERE id = 2"); one.execute("COMMIT")
      two.execute("UPDATE authors SET name = 'Y' WHERE id = 2")
    ensure
      two.execute("ROLLBACK")
      [one, two].each { |c| ActiveRecord::Base.connection_pool.checkin(c) }
    end
  end
end

up(1, CreateAuthors)
records
up(2, Enums)
attempt("genres") { Book.group(:genre).count.sort }
up(3, EnumValue)
attempt("essay") { Book.where("price > 100").update_all(genre: "essay") }
attempt("order") { Book.group(:genre).order(:genre).count.to_a }
up(4, Renames)
attempt("members") { Member.order(:id).map { |m| [m.id, m.card_number, m.state, m.kind, m.picture.to_s.bytes, m.weight.round(2)] } }
up(5, Retypes)
attempt("members") { Member.order(:id).map { |m| [m.id, m.name, m.card_number, m.state] } }
attempt("weighs") { Member.create!(name: "w", card_number: "7", weight: -1) }
attempt("down") { ActiveRecord::Migrator.new(:down, [Retypes.new("Retypes", 5)], ActiveRecord::SchemaMigration, 5).run }
up(6, Keys)
attempt("numbers") { Book.distinct.count(:number) }
attempt("fixtures") { C.disable_referential_integrity { C.execute("INSERT INTO books (title, writer_id, created_at, updated_at) VALUES ('f', 77, now(), now())") }.cmd_tuples }
attempt("truncate books") { C.truncate("books").cmd_tuples }
attempt("truncate") { C.truncate_tables("books", "authors", "members").cmd_tuples }
Member.insert!({ id: 50, name: "n", card_number: "0" })
attempt("reset_pk") { C.reset_pk_sequence!("members") }
attempt("after it") { Member.create!(name: "n", card_number: "1").id }
attempt("explain") { Member.where(id: 1).explain.lines.first.split(" on ").first.sub("Foreign Scan", "Index Scan")[0, 10] }
C.tables.sort.each { |t| attempt("drop #{t}") { C.drop_table(t, force: :cascade).cmd_tuples } }
puts C.tables.inspect
