"""Parts of PostgreSQL's source, from a source package of Debian's that this machine knows."""
import os
import re
import subprocess
import tarfile

from mosqltest import TOP, run


def source(major, part):
    """A copy of the folder `part` (as src/test/isolation/specs) of PostgreSQL's source, files
    two folders deep at most; None where no source package is to be had."""
    where = os.path.join(TOP, "tmp", f"postgresql-{major}", part)
    if os.path.isdir(where):
        return where
    file = os.path.join(TOP, "tmp", f"postgresql-{major}-{os.getpid()}.tar.bz2")
    versions = re.findall(rf"^\s*postgresql-{major} \| (\S+) ", run("apt-cache", "madison", f"postgresql-{major}", check=False), re.M)
    for version in dict.fromkeys(versions):
        uri = re.search(r"'(\S+/)postgresql-\S+\.deb'", run("apt-get", "download", "--print-uris", f"postgresql-{major}={version}",
                                                            check=False))
        if uri and subprocess.run(["/usr/lib/apt/apt-helper", "download-file",
                                   f"{uri[1]}postgresql-{major}_{version.split('-')[0]}.orig.tar.bz2", file],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
            unpack(file, part, where)
            os.remove(file)
            return where
    return None


def unpack(file, part, where):
    """Names that we know the shape of only, no path of the archive."""
    new = f"{where}.{os.getpid()}"
    with tarfile.open(file) as tar:
        for member in tar:
            name = re.fullmatch(rf"[\w.-]+/{part}/((?:\w[\w-]*/)?\w[\w.-]*)", member.name)
            if name and member.isfile():
                os.makedirs(os.path.dirname(os.path.join(new, name[1])), exist_ok=True)
                with open(os.path.join(new, name[1]), "wb") as out:
                    out.write(tar.extractfile(member).read())
    os.rename(new, where)
