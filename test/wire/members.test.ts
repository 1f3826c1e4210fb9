import { describe, expect, it } from 'vitest'
import {
  integerMember,
  isWebUrl,
  member,
  textMember,
  textsMember,
  wordMember,
} from '../../src/wire/json-members.ts'
import { refusalOf } from '../support/refusals.ts'

describe('a URL that names a party', () => {
  it.each([
    'https://as.example.com',
    'https://as.example.com:8443/tenant/1?x=y',
    'http://127.0.0.1:9100',
    'http://127.9.9.9/x',
    'http://[::1]:9100/x',
    'https://h/a@b',
  ])('may be %s', url => {
    expect(isWebUrl(url)).toBe(true)
  })

  it.each([
    '',
    'as.example.com',
    '//as.example.com',
    'http://as.example.com',
    'http://127.0.0.1.evil.example',
    'http://localhost:9100',
    'http://localhost.evil.example',
    'http://[::2]/',
    'https://u@h/',
    'https://u:p@h/',
    'https://@h/',
    'https://h/#f',
    'https://h/#',
    'https://h\\@evil.example',
    'https://h/a b',
    'https://h/\u0000',
    'https://h/é',
    'https:///h',
    'https://h:99999/',
    'ftp://h/',
    'javascript:alert(1)',
    'data:text/html,x',
    'HTTPS://h/',
  ])('may not be %j', url => {
    expect(isWebUrl(url)).toBe(false)
  })
})

describe('a member', () => {
  it('counts only where it is the object’s own', () => {
    expect(member({}, 'toString')).toBeUndefined()
    expect(member(JSON.parse('{"__proto__":1}') as Record<string, never>, '__proto__')).toBe(1)
    expect(refusalOf(() => textMember({}, 'constructor')).code).toBe('invalid_request')
  })

  it.each([null, 7, true, '', [], {}, 'x'.repeat(8193)])('that must be text is not %j', value => {
    expect(refusalOf(() => textMember({ a: value }, 'a')).detail).toMatch(/^Give a as /)
  })

  it.each([null, 'x', {}, [1], [''], [['x']], Array.from({ length: 257 }, () => 'x')])(
    'that must be a list of texts is not %j',
    value => {
      expect(refusalOf(() => textsMember({ a: value }, 'a')).detail).toMatch(/^Give a as /)
      expect(refusalOf(() => textsMember({ a: value }, 'a', true)).detail).toMatch(/^Give a as /)
    },
  )

  it('that is a list may be left out only where it is optional', () => {
    expect(textsMember({}, 'a', true)).toEqual([])
    expect(refusalOf(() => textsMember({}, 'a')).code).toBe('invalid_request')
  })

  it.each([null, '1', 0.5, -1, 1e300, true, [1]])('that must be a whole number is not %j', value => {
    expect(refusalOf(() => integerMember({ a: value }, 'a')).detail).toMatch(/^Give a as /)
  })

  it('that must be one of some words is none other', () => {
    expect(wordMember({ a: 'x' }, 'a', ['x', 'y'])).toBe('x')
    for (const value of ['X', 'z', null, ['x']]) {
      expect(refusalOf(() => wordMember({ a: value }, 'a', ['x', 'y'])).detail).toBe('Give a as x or y.')
    }
  })
})
