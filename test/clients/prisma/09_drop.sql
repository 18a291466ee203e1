-- DropForeignKey
ALTER TABLE "Opinion" DROP CONSTRAINT "Vote_postId_fkey";

-- DropForeignKey
ALTER TABLE "_PostToTag" DROP CONSTRAINT "_PostToTag_A_fkey";

-- DropForeignKey
ALTER TABLE "_PostToTag" DROP CONSTRAINT "_PostToTag_B_fkey";

-- DropTable
DROP TABLE "_PostToTag";

-- AlterTable
ALTER TABLE "Post" ADD COLUMN     "tags" BIGINT[] DEFAULT ARRAY[]::BIGINT[],
ALTER COLUMN "keywords" DROP DEFAULT,
DROP CONSTRAINT "Post_pkey",
DROP COLUMN "body",
ALTER COLUMN "serial" DROP DEFAULT,
ADD CONSTRAINT "Post_pkey" PRIMARY KEY ("id", "slug");
DROP SEQUENCE "Post_serial_seq";
