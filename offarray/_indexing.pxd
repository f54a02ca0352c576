from offarray._handle cimport Handle

cpdef getitem(Handle self, object key)
cpdef setitem(Handle self, object key, object value)
