# mosql_fdw: built with PGXS against an installed PostgreSQL 15 to 18.
#
#     make                     build mosql_fdw.so here
#     make install             install it into the PostgreSQL of PG_CONFIG
#     make installcheck        SQL and isolation tests on a running server
#                              (script/test starts one and runs everything)
#     make unit                tests without a server
#     make fake_redis          the client against scripted replies
#     make check-all           all levels: script/test
#     make check-symbols       every exported symbol carries our prefix, and every
#                              function that is not static is used by another file
#
#     PG_CONFIG=/path/to/pg_config   another PostgreSQL
#     WERROR=1                       warnings are errors
#     ASSERT=1                       assertions on, little optimisation
#
# To build elsewhere: cd there, make -f /path/to/this/Makefile.

MODULE_big = mosql_fdw
EXTENSION = mosql_fdw
PGFILEDESC = "mosql_fdw - relational tables in a Redis Cluster"

TOP := $(patsubst %/,%,$(dir $(abspath $(firstword $(MAKEFILE_LIST)))))
files = $(patsubst $(TOP)/%,%,$(sort $(wildcard $(addprefix $(TOP)/,$(1)))))

OBJS = $(patsubst %.c,%.o,$(call files,mosql_fdw.c src/*/*.c))
DATA = $(call files,sql/*--*.sql)
REGRESS = setup $(filter-out setup,$(patsubst sql/%.sql,%,$(filter-out $(DATA),$(call files,sql/*.sql))))
ISOLATION = $(patsubst specs/%.spec,%,$(call files,specs/*.spec))
ISOLATION_OPTS = --load-extension=mosql_fdw

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq ($(PGXS),)
$(error $(PG_CONFIG) does not work: install postgresql-server-dev or set PG_CONFIG)
endif

PG_CPPFLAGS = -I$(TOP)/src -MMD -MP
PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers \
	-Wno-sign-compare -Wno-declaration-after-statement
SHLIB_LINK = -lhiredis -llz4 -lzstd

ifneq ($(findstring clang,$(CC)),)
PG_CFLAGS += -Wno-unknown-warning-option -Wno-ignored-optimization-argument -Wno-ignored-attributes
endif
ifdef WERROR
PG_CFLAGS += -Werror
endif
ifdef ASSERT
PG_CPPFLAGS += -DUSE_ASSERT_CHECKING=1
PG_CFLAGS += -O1
endif

EXTRA_CLEAN = $(OBJS:.o=.d)

override with_llvm = no
include $(PGXS)

# Built elsewhere, only sources are looked up here, never objects.
VPATH =
vpath %.c $(TOP)
vpath %.control $(TOP)
$(shell mkdir -p $(sort $(dir $(OBJS))))
-include $(OBJS:.o=.d)

FAKE_TESTS = $(notdir $(basename $(call files,test/fake_redis/test_*.c)))
UNIT_TESTS = $(notdir $(basename $(call files,test/unit/test_*.c)))

unit:
	+@$(MAKE) --no-print-directory -C $(TOP)/test/unit check T="$(UNIT_TESTS)" PG_CONFIG=$(PG_CONFIG)

fake_redis:
	+@$(MAKE) --no-print-directory -C $(TOP)/test/unit check T="$(FAKE_TESTS)" PG_CONFIG=$(PG_CONFIG)

check-all:
	@$(TOP)/script/test

check-symbols: $(shlib)
	@strays=$$(nm -D --defined-only $(shlib) | awk '{print $$NF}' | \
		grep -Ev '^(mosql|pg_finfo_mosql|_PG_init$$|Pg_magic_func$$|_init$$|_fini$$)'); \
	if [ -n "$$strays" ]; then printf 'exported without prefix: %s\n' $$strays; exit 1; fi
	@unused=; \
	for name in $$({ nm -u $(OBJS) | awk '{print $$NF, "wanted"}'; \
			nm -g --defined-only $(OBJS) | awk 'NF == 3 {print $$3, "defined"}'; } | \
			awk '$$2 == "wanted" {wanted[$$1]} $$2 == "defined" {defined[$$1]} \
				END {for (n in defined) if (!(n in wanted) && n ~ /^mosql/ && \
					!("pg_finfo_" n in defined)) print n}'); do \
		grep -Frqw -e "$$name" $(TOP)/test || grep -Frq -e "\"$$name\"" $(TOP)/src || \
			test "$$(grep -Frlw --include='*.c' -e "$$name" $(TOP)/src | wc -l)" -gt 1 || \
			unused="$$unused $$name"; \
	done; \
	if [ -n "$$unused" ]; then printf 'not static, and used by no other file: %s\n' $$unused; exit 1; fi

.PHONY: unit fake_redis check-all check-symbols
