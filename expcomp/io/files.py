from __future__ import annotations
import os
from typing import NamedTuple
from expcomp.errors import SourceError
class Entry(NamedTuple):
    size: int|None; is_symlink: bool
def walk(root):
    out={}
    def go(d,p):
        with os.scandir(d) as it:
            for e in it:
                if e.is_symlink(): out[p+e.name]=Entry(None,True)
                elif e.is_dir(follow_symlinks=False): go(e.path,p+e.name+"/")
                elif e.is_file(follow_symlinks=False): out[p+e.name]=Entry(None,False)
    go(os.fspath(root),"")
    return dict(sorted(out.items()))
def read_fast(path,limit=1<<30):
    try: fd=os.open(path,os.O_RDONLY|os.O_NOFOLLOW|os.O_CLOEXEC)
    except OSError as e: raise SourceError(str(e.strerror)) from e
    try:
        data=os.read(fd,1<<18)
        if len(data)==1<<18:
            parts=[data]
            while d:=os.read(fd,1<<20): parts.append(d)
            data=b"".join(parts)
        return data
    finally: os.close(fd)
