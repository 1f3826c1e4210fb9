import type { Certificates, TlsMaterial } from '../../src/http/servers/certificates.ts'

/** Certificates that are never renewed. */
export function fixedCertificates<T extends TlsMaterial>(material: T): Certificates<T> {
  return { current: () => material, onReload: () => undefined, stop: () => undefined }
}
