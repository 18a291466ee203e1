-- AlterTable
CREATE SEQUENCE profile_number_seq;
ALTER TABLE "Profile" ADD COLUMN "number" INTEGER NOT NULL DEFAULT 0;
ALTER TABLE "Profile" ALTER COLUMN "number" SET DEFAULT nextval('profile_number_seq');
ALTER SEQUENCE profile_number_seq OWNED BY "Profile"."number";

-- AlterTable
ALTER TABLE "Post" ADD COLUMN "serial" BIGSERIAL NOT NULL;

-- CreateIndex
CREATE UNIQUE INDEX "Post_serial_key" ON "Post"("serial");

-- AlterTable
ALTER TABLE "Post" ALTER COLUMN "status" DROP DEFAULT,
ALTER COLUMN "status" SET DATA TYPE TEXT USING "status"::text,
ALTER COLUMN "status" SET DEFAULT 'draft';

-- DropEnum
DROP TYPE "Status";

-- CreateEnum
CREATE TYPE "Status" AS ENUM ('DRAFT', 'PUBLISHED');

-- AlterTable
ALTER TABLE "Post" ALTER COLUMN "status" DROP DEFAULT;
ALTER TABLE "Post" ALTER COLUMN "status" TYPE "Status" USING (upper("status")::"Status");
ALTER TABLE "Post" ALTER COLUMN "status" SET DEFAULT 'DRAFT';

-- by hand
ALTER TYPE "Status" RENAME VALUE 'PUBLISHED' TO 'PUBLIC';
ALTER TABLE "Post" ADD CONSTRAINT "Post_views_check" CHECK ("views" >= 0);
CREATE UNIQUE INDEX "User_email_active_key" ON "User" (lower("email")) WHERE "deletedAt" IS NULL;
COMMENT ON TABLE "Post" IS 'what is written';
COMMENT ON COLUMN "Post"."slug" IS 'as in the address';
UPDATE "Post" SET "slug" = lower(replace("title", ' ', '-'));
ALTER TABLE "Post" ALTER COLUMN "slug" DROP DEFAULT;
CREATE UNIQUE INDEX "Post_slug_key" ON "Post"("slug");
