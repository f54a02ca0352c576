from offarray._array cimport Handle, fresh
