/** contract, "Authentication": an issuer is compared byte for byte, so its one spelling is what is told. */
import { describe, expect, it } from 'vitest'
import { isPlainUrl, plainUrlWords } from '../../src/config/settings.ts'
import { resourceUri } from '../../src/config/provisioning/provisioned.ts'

describe('A URL that is refused for its spelling alone', () => {
  it.each([
    ['https://AS.Example.com/', 'https://as.example.com'],
    ['https://as.example.com:443/as', 'https://as.example.com/as'],
    ['http://as.example.com:80', 'http://as.example.com'],
    ['https://bücher.example/as', 'https://xn--bcher-kva.example/as'],
    ['https://as.example.com/a/../b', 'https://as.example.com/b'],
    ['https://as.example.com/ä', 'https://as.example.com/%C3%A4'],
    ['https://[FD00:0::1]/as', 'https://[fd00::1]/as'],
    [' https://as.example.com', 'https://as.example.com'],
  ])('%j is told as what it is: %s', (given, spelling) => {
    expect([isPlainUrl(given), isPlainUrl(spelling)]).toEqual([false, true])
    expect(resourceUri.safeParse(given).error?.issues[0]?.message).toBe(
      `give its normal spelling (${spelling})`,
    )
  })

  it.each([
    'https://as.example.com/',
    'https://as.example.com/a//',
    'https://u:p@as.example.com',
    'https://as.example.com?a',
    'https://as.example.com#a',
    'as.example.com',
    'ftp://as.example.com',
  ])('%j is not one of these', given => {
    expect(plainUrlWords(given)).toBe(
      'give an absolute URL without userinfo, query, fragment or trailing slash',
    )
  })
})
