-- AlterTable
ALTER TABLE "Post" DROP COLUMN "rating",
ADD COLUMN     "publishedAt" TIMESTAMP(3),
ADD COLUMN     "score" DOUBLE PRECISION NOT NULL DEFAULT 0,
ADD COLUMN     "slug" TEXT NOT NULL DEFAULT '',
ALTER COLUMN "title" SET DATA TYPE TEXT,
ALTER COLUMN "views" SET DATA TYPE BIGINT,
ALTER COLUMN "content" SET NOT NULL,
ALTER COLUMN "content" SET DEFAULT '';

-- AlterTable
ALTER TABLE "User" ADD COLUMN     "deletedAt" TIMESTAMPTZ(6),
ALTER COLUMN "updatedAt" SET DEFAULT CURRENT_TIMESTAMP;

-- AlterTable
ALTER TABLE "User" RENAME COLUMN "name" TO "displayName";

-- AlterTable
ALTER TABLE "Vote" DROP COLUMN "value",
ADD COLUMN     "value" BOOLEAN NOT NULL DEFAULT true;

-- DropIndex
DROP INDEX "Post_title_idx";

-- CreateIndex
CREATE INDEX "Post_status_publishedAt_idx" ON "Post"("status", "publishedAt");

-- RenameIndex
ALTER INDEX "Post_authorId_createdAt_idx" RENAME TO "post_by_author";

-- RenameForeignKey
ALTER TABLE "Post" RENAME CONSTRAINT "Post_authorId_fkey" TO "Post_author_fkey";
