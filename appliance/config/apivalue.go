// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"reflect"
	"strconv"
)

// apiValue turns a set field into what encoding/json with UseNumber would read
// from the API, so that both sides compare equal.
func apiValue(v reflect.Value) any {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.CanAddr() {
		if x, ok := v.Addr().Interface().(value); ok {
			return x.api()
		}
	} else if x, ok := addressable(v).(value); ok {
		return x.api()
	}
	switch v.Kind() {
	case reflect.Struct:
		return APIValues(v.Interface())
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = apiValue(v.Index(i))
		}
		return list
	case reflect.Map:
		m := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			m[it.Key().String()] = apiValue(it.Value())
		}
		return m
	case reflect.Uint64:
		return json.Number(strconv.FormatUint(v.Uint(), 10))
	}
	return v.Interface() // string or bool: the key table has no other kinds
}

func addressable(v reflect.Value) any {
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return p.Interface()
}
