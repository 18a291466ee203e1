"""An application of Django's own parts: migrations, users and groups.  Run by
t/clients.py: migrate, then use, then whatever manage.py command.  PGHOST, PGPORT and
PGDATABASE say where."""
import os
import sys

import django
from django.conf import settings
from django.core.management import execute_from_command_line

settings.configure(
    SECRET_KEY="not one", USE_TZ=True, DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    SILENCED_SYSTEM_CHECKS=["admin.E403", "admin.E408", "admin.E409", "admin.E410"],   # no web pages
    INSTALLED_APPS=["django.contrib." + app for app in
                    ("admin", "auth", "contenttypes", "sessions", "messages")],
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "USER": "postgres",
                           "NAME": os.environ["PGDATABASE"], "HOST": os.environ["PGHOST"],
                           "PORT": os.environ["PGPORT"]}})


def computed_indexes(User):
    """Of an expression, and conditional, as migrations make them."""
    from django.db import connection, transaction
    from django.db.models import Index, Q, UniqueConstraint
    from django.db.models.functions import Lower

    index = Index(Lower("email"), name="user_mail")
    constraint = UniqueConstraint(fields=["email"], condition=Q(is_staff=True), name="staff_mail")
    with connection.schema_editor() as editor:
        editor.add_index(User, index)
        editor.add_constraint(User, constraint)
    User.objects.create(username="twin", email="root@example.org")
    query = User.objects.annotate(mail=Lower("email")).filter(mail="root@example.org")
    assert query.count() == 2
    try:
        with transaction.atomic():
            User.objects.filter(username="twin").update(is_staff=True)
        raise AssertionError("two of the staff with one address")
    except django.db.IntegrityError:
        pass
    query.filter(username="twin").delete()
    with connection.schema_editor() as editor:
        editor.remove_constraint(User, constraint)
        editor.remove_index(User, index)


def use():
    from django.contrib.auth import authenticate
    from django.contrib.auth.models import Group, Permission, User
    from django.db import transaction

    root = User.objects.create_superuser("root", "root@example.org", "secret")
    assert authenticate(username="root", password="secret") == root
    assert authenticate(username="root", password="wrong") is None
    assert User.objects.filter(username__startswith="ro").count() == 1
    group = Group.objects.create(name="g")
    root.groups.add(group)
    group.permissions.set(Permission.objects.filter(codename__contains="user"))
    assert sorted(p.codename for p in group.permissions.select_related("content_type")) == \
        ["add_user", "change_user", "delete_user", "view_user"]
    Group.objects.bulk_create([Group(name="g"), Group(name="h")], ignore_conflicts=True)
    assert sorted(g.name for g in Group.objects.all()) == ["g", "h"]
    assert not Group.objects.update_or_create(name="h", defaults={})[1]
    if django.VERSION >= (4, 1):
        User.objects.bulk_create([User(username="root", first_name="first"), User(username="other")],
                                 update_conflicts=True, unique_fields=["username"],
                                 update_fields=["first_name"])
        assert sorted(User.objects.values_list("username", "first_name")) == \
            [("other", ""), ("root", "first")]
    try:
        with transaction.atomic():
            Group.objects.create(name="never")
            User.objects.create(username="root")
        raise AssertionError("a second root")
    except django.db.IntegrityError:
        assert not Group.objects.filter(name="never").exists()
    computed_indexes(User)
    assert User.objects.filter(groups__name="g").update(last_name="last") == 1
    group.delete()
    assert root.groups.count() == 0


django.setup()
if sys.argv[1:] == ["use"]:
    use()
else:
    execute_from_command_line(sys.argv)
